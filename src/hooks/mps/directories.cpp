#include "hooks/mps/directories.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks::mps {

namespace {

/// The user's own directory `name` of `parent`, which is made if it is missing.
UniqueFd openOwnDirectory(int parent, const char* name, const std::string& shown, uid_t localUid) {
    if (::mkdirat(parent, name, 0700) != 0 && errno != EEXIST) {
        throwErrno(cat("Failed to create ", printable(shown)));
    }
    UniqueFd directory(checkErrno(::openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                                  cat("Failed to open ", printable(shown))));
    struct stat status {};
    checkErrno(::fstat(directory.get(), &status), cat("Failed to examine ", printable(shown)));
    if (status.st_uid != localUid || (status.st_mode & 077) != 0) {
        throw Error(cat(printable(shown), " must belong to the user alone",
                        status.st_uid == localUid ? ", but others may use it"
                                                  : cat(", but it belongs to uid ", status.st_uid)),
                    "Remove it, or have the administrator find out who made it");
    }
    return directory;
}

}  // namespace

void requireOwnPipeDirectory(const std::string& path, uid_t localUid) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && status.st_uid != localUid && status.st_uid != 0) {
        throw Error(cat("The pipe directory ", printable(path), " of CUDA MPS belongs to another user: uid ",
                        status.st_uid),
                    "MPS_USER_DIRECTORY in the hook's JSON file gives each user directories of his own");
    }
}

UserDirectories prepareUserDirectories(Settings& settings, uid_t nodeUid, uid_t localUid) {
    const auto path = settings.directoryOf(nodeUid);
    const UniqueFd base(
        checkErrno(::open(settings.userDirectory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC),
                   cat("MPS_USER_DIRECTORY: failed to open ", printable(settings.userDirectory))));
    const auto own = openOwnDirectory(base.get(), path.c_str() + path.rfind('/') + 1, path, localUid);
    settings.logDirectory = cat(path, "/log");
    settings.pipeDirectory = cat(path, "/pipe");
    return {.pipe = openOwnDirectory(own.get(), "pipe", settings.pipeDirectory, localUid),
            .log = openOwnDirectory(own.get(), "log", settings.logDirectory, localUid)};
}

}  // namespace sarus::hooks::mps
