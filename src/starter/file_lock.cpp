#include "starter/file_lock.hpp"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <ctime>

namespace sarus::starter {

bool lockWithin(int fd, int milliseconds) {
    constexpr int attemptsInMillisecond = 4;
    constexpr timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000 / attemptsInMillisecond};
    for (int attempt = 0; attempt < milliseconds * attemptsInMillisecond; ++attempt) {
        if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
            return true;
        }
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return false;
        }
        ::nanosleep(&pause, nullptr);
    }
    return false;
}

bool hasName(int fd, const std::string& path) {
    struct stat byName {};
    struct stat byFd {};
    return ::lstat(path.c_str(), &byName) == 0 && ::fstat(fd, &byFd) == 0 && byName.st_ino == byFd.st_ino &&
           byName.st_dev == byFd.st_dev;
}

}  // namespace sarus::starter
