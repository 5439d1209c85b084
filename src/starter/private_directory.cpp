#include "starter/private_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

/// For a name which anybody could have taken before its owner did: nobody but its present owner and root can remove it.
Error foreignEntry(const std::string& path, const struct stat& status) {
    constexpr uid_t unmapped = 65534;  // how a user namespace shows all users but its own
    return Error(
        cat(printable(path), " cannot be used as a private directory: it ",
            S_ISDIR(status.st_mode) ? "" : "is no directory, and ", "belongs to ",
            status.st_uid == unmapped ? "another user" : cat("uid ", status.st_uid)),
        "Set XDG_RUNTIME_DIR to a directory of your own, or ask the administrator to remove it, or for another `tempDir` in "
        "sarus.json");
}

}  // namespace

void verifyPrivate(int fd, const std::string& path, uid_t owner, mode_t forbidden) {
    struct stat status {};
    checkErrno(::fstat(fd, &status), cat("Failed to examine ", printable(path)));
    if (status.st_uid != owner) {
        throw foreignEntry(path, status);
    }
    if (!S_ISDIR(status.st_mode)) {
        throw Error(cat(printable(path), " is not a directory"), cat("Remove ", printable(path)));
    }
    if ((status.st_mode & forbidden) != 0) {
        throw Error(cat("The directory ", printable(path), " does not belong to uid ", owner, " alone: others have access"),
                    cat("Remove ", printable(path), ", correct its mode, or set XDG_RUNTIME_DIR to a directory of your own"));
    }
}

UniqueFd makePrivateDirectory(int parent, const std::string& name, const std::string& path, mode_t mode, uid_t owner) {
    UniqueFd fd;
    for (int attempt = 0; attempt < 100 && !fd; ++attempt) {  // another process may remove it in between
        if (::mkdirat(parent, name.c_str(), mode) != 0 && errno != EEXIST) {
            throwErrno(cat("Failed to create ", printable(path)));
        }
        // Without O_DIRECTORY, so that whatever is there can be told apart; a link itself is opened.
        fd.reset(::openat(parent, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!fd && errno != ENOENT) {
            break;
        }
    }
    checkErrno(fd.get(), cat("Failed to open ", printable(path)));
    verifyPrivate(fd.get(), path, owner, mode == 0700 ? 077 : 022);
    return fd;
}

}  // namespace sarus::starter
