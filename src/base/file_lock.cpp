#include "base/file_lock.hpp"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <ctime>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus {

bool isLockUnsupported(int errnum) noexcept {
    return errnum == ENOSYS || errnum == EOPNOTSUPP || errnum == ENOLCK;
}

LockResult lockWithin(int fd, const std::string& path, int milliseconds) {
    constexpr int attemptsInMillisecond = 4;
    constexpr timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000 / attemptsInMillisecond};
    for (int attempt = 0; attempt < milliseconds * attemptsInMillisecond; ++attempt) {
        if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
            return LockResult::held;
        }
        if (isLockUnsupported(errno)) {
            return LockResult::unsupported;
        }
        if (errno != EWOULDBLOCK && errno != EINTR) {
            throwErrno(cat("Failed to lock ", printable(path)));
        }
        ::nanosleep(&pause, nullptr);
    }
    return LockResult::busy;
}

bool hasName(int fd, const std::string& path) {
    struct stat byName {};
    struct stat byFd {};
    return ::lstat(path.c_str(), &byName) == 0 && ::fstat(fd, &byFd) == 0 && byName.st_ino == byFd.st_ino &&
           byName.st_dev == byFd.st_dev;
}

}  // namespace sarus
