#pragma once

#include <string>

#include "base/unique_fd.hpp"
#include "node/subordinate_ids.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// User namespaces for the container, below the rootless starter's own. Empty: the OCI runtime creates new
/// ones.
struct UserNamespaces {
    UniqueFd container;  ///< given to the container by the OCI runtime
    UniqueFd payload;    ///< below that one; sarus-enter enters it. Empty where containers need none
};

/// Where a caller's rootless containers find each other's namespaces.
struct NamespaceSharing {
    std::string directory{};  ///< exists, the caller's alone; empty: share nothing
    /// Whether sarus-enter creates the container's user (engine::createsUserInside).
    bool createsUser = false;
};

/// Enters a user namespace in which the caller's uid and gid are 0, together with all of the caller's
/// rootless starters on this node that have the same gid, limits and environment, and opens the namespaces of
/// their containers. Only processes in one user namespace may read each other's memory and descriptors. The
/// first starter creates the namespaces, and later ones enter those of any that still runs. No daemon and no
/// cleanup are needed: the namespaces end with their last process.
///
/// If that fails for any reason, the starter gets namespaces of its own (--debug logs why). Throws Error only
/// if it cannot have any.
UserNamespaces enterSharedUserNamespace(Credentials& credentials, const NamespaceSharing& sharing);

/// Enters a new user namespace in which the caller's uid and gid are 0, with the subordinate ids that the
/// node gives, and makes one with the same ids for a container whose caller is root inside. Throws Error.
UserNamespaces enterNamespaceOfRoot(Credentials& credentials, const node::SubordinateIds& more);

/// A path by which other processes can open this process's descriptor.
std::string pathForOthers(int fd);

}  // namespace sarus::starter
