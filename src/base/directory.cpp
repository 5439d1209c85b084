#include "base/directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>

namespace sarus {

Directory::Directory(UniqueFd fd) noexcept : stream(fd ? ::fdopendir(fd.get()) : nullptr) {
    if (stream) {
        fd.release();  // the stream owns it now
    }
}

Directory Directory::of(int fd) noexcept {
    return Directory(UniqueFd(::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
}

const char* Directory::next() noexcept {
    errno = 0;
    while ((entry = stream ? ::readdir(stream.get()) : nullptr) != nullptr) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") {
            return entry->d_name;
        }
    }
    return nullptr;
}

bool Directory::isAtDirectory() const noexcept {
    struct stat status {};
    return entry->d_type == DT_DIR ||
           (entry->d_type == DT_UNKNOWN &&
            ::fstatat(fd(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode));
}

}  // namespace sarus
