#include "base/directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

constexpr int openFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

/// Of errno.
bool isEmpty(Missing missing) {
    return missing == Missing::isEmpty && (errno == ENOENT || errno == ENOTDIR || errno == ESRCH);
}

/// An empty descriptor if nothing is there and that is no error.
UniqueFd openDirectory(int parent, const char* name, int flags, const std::string& shown, Missing missing) {
    UniqueFd fd(::openat(parent, name, openFlags | flags));
    if (!fd && !isEmpty(missing)) {
        throwErrno(cat("Failed to list ", printable(shown)));
    }
    return fd;
}

UniqueFd requireOpen(UniqueFd fd, const std::string& shown) {
    if (!fd) {
        throw Error::fromErrno(cat("Failed to list ", printable(shown)), EBADF);
    }
    return fd;
}

}  // namespace

Directory::Directory(const std::string& path, Missing missing)
    : Directory(path, openDirectory(AT_FDCWD, path.c_str(), 0, path, missing), missing) {}

Directory::Directory(int parent, const char* name, const std::string& path, Missing missing)
    : Directory(path, openDirectory(parent, name, O_NOFOLLOW, path, missing), missing) {}

Directory::Directory(UniqueFd fd, const std::string& path, Missing missing)
    : Directory(path, requireOpen(std::move(fd), path), missing) {}

Directory::Directory(std::string path, UniqueFd fd, Missing missing)
    : shown(std::move(path)), ifMissing(missing), stream(fd ? ::fdopendir(fd.get()) : nullptr) {
    if (stream) {
        fd.release();  // the stream owns it now
    } else if (fd && !isEmpty(missing)) {
        fail();
    }
}

Directory Directory::of(int fd, const std::string& path) {
    auto own = openDirectory(fd, ".", 0, path, Missing::isError);
    return Directory(std::move(own), path);
}

const char* Directory::next() {
    errno = 0;
    while ((entry = stream ? ::readdir(stream.get()) : nullptr) != nullptr) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") {
            return entry->d_name;
        }
    }
    if (errno != 0 && !isEmpty(ifMissing)) {
        fail();
    }
    return nullptr;
}

bool Directory::isAtDirectory() const noexcept {
    struct stat status {};
    return entry->d_type == DT_DIR ||
           (entry->d_type == DT_UNKNOWN &&
            ::fstatat(fd(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode));
}

void Directory::fail() const {
    throwErrno(cat("Failed to list ", printable(shown)));
}

}  // namespace sarus
