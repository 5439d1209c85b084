#pragma once

#include "base/unique_fd.hpp"
#include "cli/command.hpp"
#include "engine/launch_request.hpp"

namespace sarus::cli {

/// What `run` and `exec` ask the starter for in the same way: variables, directory, terminal, and what the starter has to know
/// of this process. Throws Error.
engine::LaunchRequest commonRequest(const Arguments& arguments);

/// The checks that need no file: a typing error is reported before anything is looked up. Throws Error.
void checkOptions(const engine::LaunchRequest& request, const std::string& command);

/// The channel to the starter, which survives its start: a memory file that nobody can change any more.
UniqueFd writeRequest(const engine::LaunchRequest& request);

/// Options which both commands have.
Option environmentOption();
Option environmentFileOption();
Option terminalOption();
Option workdirOption();

}  // namespace sarus::cli
