#pragma once

#include <string>

#include "base/subprocess.hpp"
#include "cli/command.hpp"
#include "cli/context.hpp"
#include "engine/starter_request.hpp"

namespace sarus::cli {

/// Executes the starter with an empty environment and the request in a sealed memory file. Throws Error.
[[noreturn]] void execStarter(Context& context, const engine::StarterRequest& request);

/// Runs the starter with a request that prints something, and returns that. Throws Error with its message.
std::string askStarter(Context& context, const engine::StarterRequest& request);

/// Runs the starter to its end, in a process group that signals within an InterruptScope end. Its messages
/// are this program's. Throws Error if it cannot be started or is ended.
ExitStatus runStarter(Context& context, const engine::StarterRequest& request, int standardInput);

/// Makes sure that the directory above the caller's repository exists. Where the caller may not create it,
/// the starter does. Throws Error.
void ensureUserDirectory(Context& context, const std::string& repository);

/// The caller's XDG_RUNTIME_DIR, where rootless containers keep their state; "" if it is not set.
std::string sessionDirectory();

/// The option `--json`.
Option jsonOption();

}  // namespace sarus::cli
