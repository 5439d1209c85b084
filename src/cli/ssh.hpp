#pragma once

namespace sarus::cli {

class Context;

/// Asks the SSH hook, as the calling user, whether he has the keys that `run --ssh` needs. Throws Error with the documented
/// message if not.
void checkSshKeys(Context& context);

}  // namespace sarus::cli
