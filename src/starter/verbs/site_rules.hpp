#pragma once

#include <string>

#include "base/unique_fd.hpp"
#include "engine/launch_request.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::starter {

// The rules of the site that plan() cannot decide. All of them hold only for a starter with privileges:
// without, a user can do everything that it does. Each throws Error.

/// `privilegedGroups`; root may always start containers.
void checkCaller(const Session& session);

/// `imagePolicy`, on the descriptor that is mounted later. Call it in the caller's mount namespace. Adds a
/// digest that was checked to the session's records.
void checkImage(Session& session, const engine::LaunchRequest& request);

/// The turn of this user's starter to add a container if their number is limited, so that of several at the
/// limit some start: it lasts as long as the descriptor. Nobody waits long for it.
UniqueFd turnToAddContainer(const Session& session, const std::string& runtimeRoot);

/// `containerLimits.perUser`, once this container has its record; not for root.
void checkContainerCount(const Session& session, const std::string& runtimeRoot);

}  // namespace sarus::starter
