#pragma once

namespace sarus {

/// Sets PATH, HOME and USER if they are missing, as login(1) does: for this process and those that it starts.
/// `env -i` and `srun --export=NONE` leave them out. Those of an account that cannot be found stay missing.
void addLoginVariables();

}  // namespace sarus
