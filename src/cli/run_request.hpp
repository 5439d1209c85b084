#pragma once

#include "base/unique_fd.hpp"
#include "cli/command.hpp"
#include "engine/launch_request.hpp"

namespace sarus::cli {

/// What a command line of `sarus run` asks the starter for.
struct RunRequest {
    engine::LaunchRequest launch;
    UniqueFd image;  ///< the descriptor that `launch` names; close-on-exec
};

/// Checks the options and finds the image. Throws Error with the documented messages.
RunRequest makeRunRequest(Context& context, const Arguments& arguments);

}  // namespace sarus::cli
