#pragma once

#include <sys/types.h>

#include <string>

#include "base/unique_fd.hpp"

namespace sarus {

/// Throws Error, naming the owner and the remedy, unless the open file is a directory of `owner` without any
/// `forbidden` mode bit. `path`: for messages.
void verifyPrivate(int fd, const std::string& path, uid_t owner, mode_t forbidden);

/// Throws Error unless only root can change or replace the entries of the directory that it or the users have
/// made there: it is root's, and others cannot write to it, or only as in /tmp.
void checkRootsAlone(const std::string& directory);

/// mkdir and open (O_PATH) of one component, never through a link. An existing entry must be as private as a
/// new one: a directory of `owner` that nobody else can enter (mode 0700) or write to (other modes).
UniqueFd makePrivateDirectory(int parent, const std::string& name, const std::string& path, mode_t mode,
                              uid_t owner);

/// mkdir -p of a directory with mode 0700. Every component must belong to root alone. Throws Error.
UniqueFd makeRootsDirectory(const std::string& path);

struct OwnDirectory {
    UniqueFd fd;
    std::string path;
};

/// The name of a user's directory in the world-writable `tempDir`: `name`. If another user has taken it: the
/// first of the owner's directories `<name>-<letters>`, created if missing. The letters are unpredictable,
/// and nobody can create a directory for somebody else. `owner`: the uid as this process's user namespace
/// shows it. Throws Error.
std::string chooseOwnDirectory(const std::string& tempDir, const std::string& name, uid_t owner);

/// The directory of that name, created if missing. Throws Error.
OwnDirectory makeOwnDirectory(const std::string& tempDir, const std::string& name, uid_t owner);

}  // namespace sarus
