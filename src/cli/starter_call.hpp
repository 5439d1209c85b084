#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/context.hpp"

namespace sarus::cli {

/// Becomes the starter, with no environment: it shows and touches only the caller's containers. Throws Error.
[[noreturn]] void execStarter(Context& context, std::vector<std::string> arguments);

/// The caller's XDG_RUNTIME_DIR, "" without one: where rootless containers keep their state.
std::string sessionDirectory();

/// The option `--json` and what the starter is told of it.
Option jsonOption();
std::string outputForm(const Arguments& arguments);

}  // namespace sarus::cli
