#pragma once

#include "engine/launch_request.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::starter {

/// Starts the requested container, and waits for its end. Returns the exit status for the program. Throws
/// Error. All mounts go away with the mount namespace, which ends with the process.
int launch(Session& session, const engine::LaunchRequest& request);

}  // namespace sarus::starter
