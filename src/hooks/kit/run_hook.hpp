#pragma once

#include <functional>
#include <string_view>

#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/hook_environment.hpp"
#include "hooks/kit/hook_log.hpp"

namespace sarus::hooks {

/// The work of a hook which is started with a container state on standard input. Throws Error on failure.
using HookBody = std::function<void(HookContext& context, const HookEnvironment& environment, const HookLog& log)>;

/// The main function of such a hook: brings the process into a known condition (descriptors 0 to 2 open, umask 022, working
/// directory `/`, signals as by default, an empty environment), reads the state, sets up logging and calls `body`.
/// Returns the exit status: 0, or that of the Error (1 unless it says otherwise) after one line on standard error which says what
/// failed (and a second one with a hint, if there is one).
int runHook(std::string_view hookName, const HookBody& body) noexcept;

/// The same frame for programs which do not get a container state (precreate hooks, sub-commands).
using ProgramBody = void (*)(const HookEnvironment& environment, const HookLog& log);
int runHookProgram(std::string_view hookName, ProgramBody body) noexcept;

}  // namespace sarus::hooks
