#pragma once

#include <string>

#include "base/unique_fd.hpp"
#include "starter/credentials.hpp"

namespace sarus::starter {

/// The user namespaces below the rootless starter's own which its container is to have; empty: the OCI runtime makes new ones.
struct UserNamespaces {
    UniqueFd container;  ///< given to the container by the OCI runtime
    UniqueFd payload;    ///< below that one; the id-map helper enters it. Empty where containers need no helper
};

/// Where a caller's rootless containers find each other's namespaces.
struct NamespaceSharing {
    std::string directory{};   ///< existing, the caller's alone; empty: nothing is shared
    bool idMapHelper = false;  ///< whether the container's user is made by the helper inside (engine::needsIdMapHelper)
};

/// Enters a user namespace in which the caller's uid and gid are 0, together with all rootless starters of the caller on this
/// node that have the same gid, limits and surroundings, and gets the namespaces of their containers: only processes in one user
/// namespace may read each other's memory and descriptors. The first of these starters makes them; every later one enters those
/// of any that still runs, so that there is no daemon and nothing to clean up: they go with the last process inside.
///
/// Where that fails, for whatever reason, the starter gets namespaces of its own (with --debug it says why). Throws Error only if
/// it cannot have any.
UserNamespaces enterSharedUserNamespace(Credentials& credentials, const NamespaceSharing& sharing);

/// The name of this process's descriptor for other processes.
std::string pathForOthers(int fd);

}  // namespace sarus::starter
