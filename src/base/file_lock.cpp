#include "base/file_lock.hpp"

#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus {

bool isLockUnsupported(int errnum) noexcept {
    return errnum == ENOSYS || errnum == EOPNOTSUPP || errnum == ENOLCK;
}

int requestLock(const std::string& path, const std::function<int()>& request) {
    constexpr std::chrono::milliseconds interval{100};
    constexpr int intervalsInWarning = 100;
    const auto parent = ::getpid();
    Child child(checkErrno(::fork(), "Failed to create a process"));
    if (child.pid() == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::_exit(::getppid() == parent && request() == 0 ? 0 : errno);
    }
    for (int waited = 1;; ++waited) {
        if (const auto status = child.waitUntil(std::chrono::steady_clock::now() + interval)) {
            return status->signal != 0 ? EINTR : status->code;
        }
        throwIfInterrupted();
        if (waited % intervalsInWarning == 0) {
            logWarn("Flock", cat("Still waiting for the lock of \"", printable(path),
                                 "\": another program holds it, or the file server does not answer"));
        }
    }
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
