#pragma once

#include <string>

#include "engine/launch_request.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::starter {

/// What `sarus run --dry-run` prints. Creates and starts nothing. Throws Error.
std::string describeContainer(const Session& session, const engine::LaunchRequest& request);

}  // namespace sarus::starter
