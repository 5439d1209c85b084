#pragma once

#include <vector>

#include "engine/container_plan.hpp"
#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"
#include "starter/credentials.hpp"
#include "starter/entry.hpp"

namespace sarus::starter {

/// What the payload's limits have to be: those that the starter found, not those which it set for itself.
std::vector<CallerLimit> payloadLimits(const Entry& entry, const engine::LaunchRequest& request);

/// Throws Error if the plan wants a terminal and the caller has none.
void checkTerminal(const engine::ContainerPlan& plan);

/// Throws Error where a starter without privileges is forbidden by the site.
void checkRootlessAllowed(const Entry& entry, const engine::SiteConfig& config);

/// Starts the container that the request in the memfd `requestFd` asks for, and waits for its end. Returns the exit status for
/// the program. Throws Error. What was mounted goes away with the mount namespace, which ends with the process.
int launch(const Entry& entry, Credentials credentials, int requestFd);

}  // namespace sarus::starter
