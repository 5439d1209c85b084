#pragma once

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "cli/command.hpp"
#include "engine/launch_request.hpp"

namespace sarus::cli {

/// Set by `sarus shell`: the words behind the image are those of a shell.
inline constexpr std::string_view startShell = "start-shell";

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

/// What can be said of a command line before its job has a node.
void checkForLater(Context& context, const Arguments& arguments);

/// Finds what identifies the image. One that is not here may be that of the container all the same.
void identifyImage(Context& context, const Arguments& arguments, const std::string& name,
                   engine::LaunchRequest& request);

}  // namespace sarus::cli
