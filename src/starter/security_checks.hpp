#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "engine/site_config.hpp"

namespace sarus::starter {

/// Which owners may be able to change the files that the starter relies on.
struct TrustedOwners {
    std::vector<uid_t> alsoTrusted{};  ///< besides root; empty for a starter with privileges
    bool stickyParents = false;        ///< whether a world-writable directory with the sticky bit may be a parent
};

/// An object whose owner and mode, and those of every directory on the way to it, have been verified.
struct CheckedPath {
    UniqueFd fd;           ///< O_PATH
    std::string realPath;  ///< without symbolic links
};

/// Throws Error with the documented message if the open object can be changed by somebody who is not trusted.
void checkDescriptor(int fd, const std::string& shown, const TrustedOwners& owners);

/// Walks from "/" by descriptors, through symbolic links, and checks each component but "/" itself. nullopt if it does not exist.
std::optional<CheckedPath> checkPath(const std::string& path, const TrustedOwners& owners);

/// The same, and everything below a directory.
void checkTree(const std::string& path, const TrustedOwners& owners);

/// The checks that `securityChecks` switches on (reference documentation, "Security requirements").
void checkInstallation(const engine::SiteConfig& config, const TrustedOwners& owners);

}  // namespace sarus::starter
