#include "image/index_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/interrupt.hpp"

namespace sarus::image {

namespace {

constexpr std::uint64_t attemptIntervalMs = 100;

UniqueFd openReadableOrWritable(const std::string& path) {
    try {
        return openFile(path, O_RDWR | O_NONBLOCK | O_NOCTTY);  // NFS grants exclusive locks only on writable descriptors
    } catch (const Error& error) {
        if (error.errnum() != EACCES && error.errnum() != EROFS) {
            throw;
        }
        return openFile(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    }
}

/// A FIFO or a device would be read for ever once it is locked.
UniqueFd openToLock(const std::string& path) {
    auto fd = openReadableOrWritable(path);
    struct stat status {};
    checkErrno(::fstat(fd.get(), &status), cat("Failed to examine ", printable(path)));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat("\"", printable(path), "\" is not a regular file"), "Remove it; it is made anew from the images");
    }
    return fd;
}

bool isStill(const std::string& path, int fd) {
    struct stat named {};
    struct stat opened {};
    return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
           named.st_ino == opened.st_ino;
}

void sleepMs(std::uint64_t milliseconds) {
    timespec duration{static_cast<time_t>(milliseconds / 1000), static_cast<long>(milliseconds % 1000) * 1000000};
    ::nanosleep(&duration, nullptr);
}

}  // namespace

bool isLockUnsupported(int errnum) noexcept {
    return errnum == ENOSYS || errnum == EOPNOTSUPP || errnum == ENOLCK;
}

bool tryLock(int fd, LockMode mode) {
    while (::flock(fd, (mode == LockMode::shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            return false;
        }
        if (errno != EINTR) {
            throwErrno("Failed to lock a file");
        }
    }
    return true;
}

UniqueFd lockFile(const std::string& path, LockMode mode, const LockTimings& timings) {
    auto fd = openToLock(path);
    auto nextWarning = timings.warningMs;
    for (std::uint64_t elapsed = 0;;) {
        try {
            if (tryLock(fd.get(), mode)) {
                if (isStill(path, fd.get())) {
                    return fd;
                }
                fd = openToLock(path);  // replaced while we waited for its predecessor
                continue;
            }
        } catch (const Error& error) {
            if (!isLockUnsupported(error.errnum())) {
                throw;
            }
            logWarn("Flock", cat("The filesystem of \"", printable(path),
                                 "\" has no file locks: commands that change the repository at the same time may lose entries of "
                                 "its index (on Lustre, mount with the option flock)"));
            return fd;
        }
        if (elapsed >= timings.timeoutMs) {
            throw Error(
                cat("Failed to acquire lock on file \"", printable(path), "\" (expired timeout of ", timings.timeoutMs,
                    " milliseconds)"),
                "Another command is using the repository; if there is none, look for a hanging process with 'lsof' or 'fuser'");
        }
        if (elapsed > 0 && elapsed >= nextWarning) {
            logWarn("Flock", cat("Still attempting to acquire lock on file \"", printable(path), "\" after ", elapsed,
                                 " ms (will timeout after ", timings.timeoutMs, " milliseconds)..."));
            nextWarning += timings.warningMs;
        }
        const auto pause = std::min(attemptIntervalMs, timings.timeoutMs - elapsed);
        sleepMs(pause);
        throwIfInterrupted();
        elapsed += pause;
    }
}

}  // namespace sarus::image
