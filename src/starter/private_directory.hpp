#pragma once

#include <sys/types.h>

#include <string>

#include "base/unique_fd.hpp"

namespace sarus::starter {

/// Throws Error, which names the owner and what to do, unless the open file is a directory of `owner` with none of the bits of
/// `forbidden` in its mode. `path`: for messages.
void verifyPrivate(int fd, const std::string& path, uid_t owner, mode_t forbidden);

/// mkdir and open (O_PATH) of one component, never through a link; what exists already must be as private as what is made: a
/// directory of `owner`, which for mode 0700 nobody else can enter, and which for other modes nobody else can write to.
UniqueFd makePrivateDirectory(int parent, const std::string& name, const std::string& path, mode_t mode, uid_t owner);

struct OwnDirectory {
    UniqueFd fd;
    std::string path;
};

/// The directory of a user below `tempDir`, where everybody may make entries: `sarus-<uid>`. If another user has taken that name,
/// it is the first of the owner's directories `sarus-<uid>-<letters>`, of which one is made where there is none: the letters
/// cannot be foreseen, and nobody can make a directory for somebody else. `owner`: the uid as this process's user namespace shows
/// it.
OwnDirectory makeOwnDirectory(const std::string& tempDir, uid_t uid, uid_t owner);

}  // namespace sarus::starter
