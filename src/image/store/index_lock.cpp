#include "image/store/index_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

constexpr std::uint64_t attemptIntervalMs = 100;
constexpr int followLinks = 0;

UniqueFd openReadableOrWritable(const std::string& path) {
    try {
        return openFile(
            path, O_RDWR | O_NONBLOCK | O_NOCTTY);  // NFS grants exclusive locks only on writable descriptors
    } catch (const Error& error) {
        if (error.errnum() != EACCES && error.errnum() != EROFS) {
            throw;
        }
        return openFile(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    }
}

/// After locking it, reading a FIFO or device would never end.
UniqueFd openToLock(const std::string& path) {
    auto fd = openReadableOrWritable(path);
    struct stat status {};
    checkErrno(::fstat(fd.get(), &status), cat("Failed to examine ", printable(path)));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat("\"", printable(path), "\" is not a regular file"),
                    "Remove it; it is made anew from the images");
    }
    return fd;
}

void warnOfMissingLocks(const std::string& path, std::string_view consequence) {
    logWarn("Flock", cat("The filesystem of \"", printable(path), "\" has no file locks: ", consequence,
                         " (on Lustre, mount with the option flock; NFS of version 3 needs rpc.statd)"));
}

constexpr std::string_view indexConsequence =
    "commands that change the repository at the same time may lose entries of its index";

void sleepMs(std::uint64_t milliseconds) {
    timespec duration{static_cast<time_t>(milliseconds / 1000),
                      static_cast<long>(milliseconds % 1000) * 1000000};
    ::nanosleep(&duration, nullptr);
}

/// For a file that others replace. On NFS nothing has its name for a moment, then.
UniqueFd openReplaced(const std::string& path) {
    constexpr int attempts = 20;
    constexpr std::uint64_t pauseMs = 50;
    for (int attempt = 1;; ++attempt) {
        try {
            return openToLock(path);
        } catch (const Error& error) {
            if (error.errnum() != ENOENT || attempt == attempts) {
                throw;
            }
        }
        sleepMs(pauseMs);
    }
}

}  // namespace

bool tryLockOrWarn(int fd, LockMode mode, const std::string& path, std::string_view consequence) {
    const auto result = requestLock(fd, mode, path);
    if (result == LockResult::unsupported) {
        warnOfMissingLocks(path, consequence);
    }
    return result != LockResult::busy;
}

std::optional<UniqueFd> tryLockFile(const std::string& path, LockMode mode) {
    auto fd = openReplaced(path);
    const bool locked =
        tryLockOrWarn(fd.get(), mode, path, indexConsequence) && hasName(fd.get(), path, followLinks);
    return locked ? std::optional(std::move(fd))
                  : std::nullopt;  // a file that was just replaced belongs to a concurrent writer
}

UniqueFd lockFile(const std::string& path, LockMode mode, const LockTimings& timings) {
    auto fd = openReplaced(path);
    auto nextWarning = timings.warningMs;
    for (std::uint64_t elapsed = 0;;) {
        const bool locked = tryLockOrWarn(fd.get(), mode, path, indexConsequence);
        if (locked && hasName(fd.get(), path, followLinks)) {
            return fd;
        }
        if (locked || !hasName(fd.get(), path, followLinks)) {
            fd = openReplaced(path);  // while we waited for its predecessor
        }
        if (locked) {
            continue;
        }
        if (elapsed >= timings.timeoutMs) {
            throw Error(cat("Failed to acquire lock on file \"", printable(path), "\" (expired timeout of ",
                            timings.timeoutMs, " milliseconds)"),
                        "Another command is using the repository; if there is none, look for a hanging "
                        "process with 'lsof' or 'fuser'");
        }
        if (elapsed > 0 && elapsed >= nextWarning) {
            logWarn("Flock",
                    cat("Still attempting to acquire lock on file \"", printable(path), "\" after ", elapsed,
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
