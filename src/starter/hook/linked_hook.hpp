#pragma once

#include <optional>

#include "hooks/kit/run_hook.hpp"

namespace sarus::starter {

/// The code of the hook program `path`, if sarus-hook contains it (linkedHookName()).
std::optional<hooks::HookProgram> findLinkedHook(const char* path);

}  // namespace sarus::starter
