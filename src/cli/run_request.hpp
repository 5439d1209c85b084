#pragma once

#include "base/unique_fd.hpp"
#include "cli/command.hpp"
#include "engine/launch_request.hpp"

namespace sarus::cli {

/// The request of a `sarus run` command line to the starter.
struct RunRequest {
    engine::LaunchRequest launch;
    UniqueFd image;  ///< the descriptor that `launch` names; close-on-exec
};

/// Whether an image is copied to the nodes of the job if the command line or the site asks for it; a copy
/// that is there is used in any case.
enum class MayBroadcast { no, yes };

/// Checks the options and finds the image. Throws Error with the documented messages.
RunRequest makeRunRequest(Context& context, const Arguments& arguments, MayBroadcast mayBroadcast);

}  // namespace sarus::cli
