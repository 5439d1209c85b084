#include "base/private_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

/// For a name that anybody could have taken before its owner: only its present owner and root can remove it.
Error foreignEntry(const std::string& path, const struct stat& status) {
    constexpr uid_t unmapped = 65534;  // the owner that a user namespace shows for unmapped users
    return Error(cat(printable(path), " cannot be used as a private directory: it ",
                     S_ISDIR(status.st_mode) ? "" : "is no directory, and ", "belongs to ",
                     status.st_uid == unmapped ? "another user" : cat("uid ", status.st_uid)),
                 "Set XDG_RUNTIME_DIR to a directory of your own, or ask the administrator to remove it, or "
                 "for another `tempDir` in "
                 "sarus.json");
}

/// Whether only root can change or replace the directory's entries.
bool isRootsAlone(int directory) {
    struct stat status {};
    return ::fstat(directory, &status) == 0 && status.st_uid == 0 &&
           ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (status.st_mode & S_ISVTX) != 0);
}

}  // namespace

void checkRootsAlone(const std::string& directory) {
    if (!isRootsAlone(openFile(directory, O_PATH | O_DIRECTORY).get())) {
        throw Error(cat("The directory ", printable(directory),
                        " is not safe: others than root can replace "
                        "what root makes there"),
                    cat("Make it root's, with mode 0755 or 1777: chown root ", printable(directory),
                        "; chmod 1777 ", printable(directory)));
    }
}

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
        throw Error(cat("The directory ", printable(path), " does not belong to uid ", owner,
                        " alone: others have access"),
                    cat("Remove ", printable(path),
                        ", correct its mode, or set XDG_RUNTIME_DIR to a directory of your own"));
    }
}

UniqueFd makePrivateDirectory(int parent, const std::string& name, const std::string& path, mode_t mode,
                              uid_t owner) {
    UniqueFd fd;
    for (int attempt = 0; attempt < 100 && !fd; ++attempt) {  // another process may remove it in between
        if (::mkdirat(parent, name.c_str(), mode) != 0 && errno != EEXIST) {
            throwErrno(cat("Failed to create ", printable(path)));
        }
        // Without O_DIRECTORY, to tell other file types apart; a link itself is opened.
        fd.reset(::openat(parent, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!fd && errno != ENOENT) {
            break;
        }
    }
    checkErrno(fd.get(), cat("Failed to open ", printable(path)));
    verifyPrivate(fd.get(), path, owner, mode == 0700 ? 077 : 022);
    return fd;
}

namespace {

/// The first directory in `parent` whose name begins with `prefix` and that only the owner can use, or "".
std::string findOwn(int parent, const std::string& path, const std::string& prefix, uid_t owner) {
    std::string first;
    if (::faccessat(parent, ".", R_OK, AT_EACCESS) != 0 && errno == EACCES) {
        return first;  // a directory where users cannot see each other's names
    }
    auto entries = Directory::of(parent, path);
    while (const char* entry = entries.next()) {
        const std::string_view name = entry;
        struct stat status {};
        if (name.starts_with(prefix) && (first.empty() || name < first) &&
            ::fstatat(parent, entry, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode) &&
            status.st_uid == owner && (status.st_mode & 077) == 0) {
            first = name;
        }
    }
    return first;
}

}  // namespace

UniqueFd makeRootsDirectory(const std::string& path) {
    auto directory = openFile("/", O_PATH | O_DIRECTORY);
    const auto last = path.rfind('/');
    for (const auto& component : split(std::string_view(path).substr(0, last), '/')) {
        if (component.empty()) {
            continue;
        }
        if (::mkdirat(directory.get(), component.c_str(), 0755) != 0 && errno != EEXIST) {
            throwErrno(cat("Failed to create ", component, " of ", path));
        }
        directory = openFileAt(directory.get(), component, O_PATH | O_DIRECTORY | O_NOFOLLOW);
        if (!isRootsAlone(directory.get())) {
            throw Error(cat(component, " of ", path, " is not root's alone"));
        }
    }
    return makePrivateDirectory(directory.get(), path.substr(last + 1), path, 0700, 0);
}

namespace {

std::string chooseIn(int parent, const std::string& tempDir, const std::string& name, uid_t owner) {
    struct stat status {};
    const bool exists = ::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    if (exists && status.st_uid == owner) {
        return name;
    }
    const auto prefix = cat(name, '-');
    auto other = findOwn(parent, tempDir, prefix, owner);  // keep using it, even if the name is free again
    if (other.empty() && exists) {
        other = cat(prefix, randomLetters());
        makePrivateDirectory(parent, other, cat(tempDir, '/', other), 0700, owner);
        if (auto earlier = findOwn(parent, tempDir, prefix, owner);
            !earlier.empty()) {  // created by a concurrent start
            other = std::move(earlier);
        }
    }
    return other.empty() ? name : other;
}

}  // namespace

std::string chooseOwnDirectory(const std::string& tempDir, const std::string& name, uid_t owner) {
    return chooseIn(openFile(tempDir, O_PATH | O_DIRECTORY).get(), tempDir, name, owner);
}

OwnDirectory makeOwnDirectory(const std::string& tempDir, const std::string& name, uid_t owner) {
    const auto parent = openFile(tempDir, O_PATH | O_DIRECTORY);
    const auto chosen = chooseIn(parent.get(), tempDir, name, owner);
    const auto path = cat(tempDir, '/', chosen);
    return {makePrivateDirectory(parent.get(), chosen, path, 0700, owner), path};
}

}  // namespace sarus
