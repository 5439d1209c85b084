#pragma once

#include <string>

#include "cli/command.hpp"
#include "engine/starter_request.hpp"

namespace sarus::cli {

/// What `run` and `exec` (LaunchRequest and ExecRequest) ask the starter for in the same way: variables,
/// directory, terminal, and what the starter has to know of this process. A typing error is reported before
/// anything is looked up. Throws Error.
template <typename Request>
Request readCommonOptions(const Arguments& arguments, const std::string& command);

/// Options which both commands have.
Option environmentOption();
Option environmentFileOption();
Option terminalOption();
Option workdirOption();

}  // namespace sarus::cli
