#include "starter/private_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
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

namespace {

/// The first directory in `parent` whose name begins with `prefix` and which is the owner's alone, or "".
std::string findOwn(int parent, const std::string& prefix, uid_t owner) {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(::openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
                                                      [](DIR* directory) { return directory ? ::closedir(directory) : 0; });
    std::string first;
    while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
        const std::string_view name = static_cast<const char*>(entry->d_name);
        struct stat status {};
        if (name.starts_with(prefix) && (first.empty() || name < first) &&
            ::fstatat(parent, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode) &&
            status.st_uid == owner && (status.st_mode & 077) == 0) {
            first = name;
        }
    }
    return first;
}

}  // namespace

OwnDirectory makeOwnDirectory(const std::string& tempDir, uid_t uid, uid_t owner) {
    const auto parent = openFile(tempDir, O_PATH | O_DIRECTORY);
    auto name = cat("sarus-", uid);
    struct stat status {};
    const bool exists = ::fstatat(parent.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    if (!exists || status.st_uid != owner) {
        const auto prefix = cat(name, '-');
        auto other = findOwn(parent.get(), prefix, owner);  // in use since the name was taken, if it is free by now
        if (other.empty() && exists) {
            other = cat(prefix, randomLetters());
            makePrivateDirectory(parent.get(), other, cat(tempDir, '/', other), 0700, owner);
            if (auto earlier = findOwn(parent.get(), prefix, owner); !earlier.empty()) {  // by another start at the same time
                other = std::move(earlier);
            }
        }
        name = other.empty() ? name : other;
    }
    const auto path = cat(tempDir, '/', name);
    return {makePrivateDirectory(parent.get(), name, path, 0700, owner), path};
}

}  // namespace sarus::starter
