#pragma once

#include <optional>

#include "node/subordinate_ids.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/namespaces/shared_namespaces.hpp"

namespace sarus::starter {

/// Gives the process a mount namespace of its own in which `/` is a recursive slave of the host's. A rootless
/// starter first enters a user namespace in which the caller's uid and gid are 0 (user_namespaces(7)); with
/// `sharing`, that of the caller's other containers; with `root`, one for a container whose caller is root
/// inside. Returns the namespaces for the container. Throws Error, naming the setting if user namespaces are
/// disabled.
UserNamespaces enterNamespaces(Credentials& credentials, const NamespaceSharing& sharing = {},
                               const std::optional<node::SubordinateIds>& root = {});

}  // namespace sarus::starter
