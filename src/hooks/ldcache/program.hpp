#pragma once

#include "hooks/kit/run_hook.hpp"

namespace sarus::hooks::ldcache {

/// ldcache_hook, as the program of this name and sarus-hook run it.
HookProgram program();

}  // namespace sarus::hooks::ldcache
