#pragma once

#include <string>
#include <string_view>

#include "engine/starter_request.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::starter {

/// The number of a signal named "TERM", "SIGTERM", "sigterm" or "15". Throws Error for anything else.
int parseSignal(std::string_view text);

/// What `sarus ps` prints: the containers of the calling user, on request with those that were kept and do
/// not run; for root, on request, the running ones of all users that were started with privileges. Throws
/// Error.
std::string listContainers(const Session& session, const engine::ListRequest& request);

/// What `sarus inspect` prints about one container of the calling user (for root: of any). Throws Error if no
/// such container exists.
std::string inspectContainer(const Session& session, const engine::InspectRequest& request);

/// Sends a signal to the first process of a container of the calling user (for root: of any). Throws Error if
/// no such container exists.
void killContainer(const Session& session, const engine::KillRequest& request);

struct Removal {
    std::string names;     ///< of the removed containers, one a line
    bool complete = true;  ///< otherwise errors were printed
};

/// Removes containers that were kept, as `sarus rm` asks. Throws Error.
Removal removeContainers(const Session& session, const engine::RemoveRequest& request);

}  // namespace sarus::starter
