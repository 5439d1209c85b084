#pragma once

#include <string>

#include "cli/command.hpp"
#include "cli/context.hpp"
#include "engine/starter_request.hpp"

namespace sarus::cli {

/// Executes the starter with an empty environment and the request in a sealed memory file. Throws Error.
[[noreturn]] void execStarter(Context& context, const engine::StarterRequest& request);

/// Runs the starter with a request that prints something, and returns that. Throws Error with its message.
std::string askStarter(Context& context, const engine::StarterRequest& request);

/// Makes sure that the directory above the caller's repository exists. Where the caller may not create it,
/// the starter does. Throws Error.
void ensureUserDirectory(Context& context, const std::string& repository);

/// The caller's XDG_RUNTIME_DIR, where rootless containers keep their state; "" if it is not set.
std::string sessionDirectory();

/// The option `--json`.
Option jsonOption();

}  // namespace sarus::cli
