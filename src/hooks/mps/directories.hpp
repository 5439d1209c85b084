#pragma once

#include <string>

#include "base/unique_fd.hpp"
#include "hooks/mps/settings.hpp"

namespace sarus::hooks::mps {

/// Throws Error if the pipe directory is there and belongs to neither the user nor root: its owner could pose
/// as the daemon.
void requireOwnPipeDirectory(const std::string& path, uid_t localUid);

/// What containers of a user share; both O_PATH.
struct UserDirectories {
    UniqueFd pipe;
    UniqueFd log;
};

/// Makes the user's pipe and log directories below `settings.userDirectory` and lets the settings name them.
/// The calling thread must have the user's rights. Throws Error if somebody else has one of that name.
UserDirectories prepareUserDirectories(Settings& settings, uid_t nodeUid, uid_t localUid);

}  // namespace sarus::hooks::mps
