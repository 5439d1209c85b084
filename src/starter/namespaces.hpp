#pragma once

#include "starter/credentials.hpp"
#include "starter/shared_namespaces.hpp"

namespace sarus::starter {

/// Gives the process a mount namespace of its own in which `/` is a recursive slave of the host's. A rootless starter enters a
/// user namespace before, in which the caller's uid and gid are 0 (user_namespaces(7)): with `sharing`, the one of the caller's
/// other containers. Returns the namespaces that they have in common. Throws Error; where user namespaces are switched off it
/// names the setting.
UserNamespaces enterNamespaces(Credentials& credentials, const NamespaceSharing& sharing = {});

}  // namespace sarus::starter
