#include "base/file_lock.hpp"

#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <exception>
#include <string_view>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/mount_table.hpp"
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

namespace {

int operationOf(LockMode mode) {
    return (mode == LockMode::shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
}

}  // namespace

LockResult requestLock(int fd, LockMode mode, const std::string& path) {
    while (const int errnum = requestLock(path, [&] { return ::flock(fd, operationOf(mode)); })) {
        // ESTALE: on NFS, another node has replaced or removed the file, so its name says more.
        if (errnum == EWOULDBLOCK || errnum == ESTALE) {
            return LockResult::busy;
        }
        if (isLockUnsupported(errnum)) {
            return LockResult::unsupported;
        }
        if (errnum != EINTR) {
            throw Error::fromErrno(cat("Failed to lock ", printable(path)), errnum);
        }
        throwIfInterrupted();
    }
    return LockResult::held;
}

LockResult tryLock(int fd, LockMode mode) noexcept {
    return ::flock(fd, operationOf(mode)) == 0 ? LockResult::held
           : isLockUnsupported(errno)          ? LockResult::unsupported
                                               : LockResult::busy;
}

LockResult lockWithin(int fd, int milliseconds) noexcept {
    constexpr int attemptsInMillisecond = 4;
    constexpr timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000 / attemptsInMillisecond};
    auto result = LockResult::busy;
    for (int attempt = 0; result == LockResult::busy && attempt < milliseconds * attemptsInMillisecond;
         ++attempt) {
        if (attempt > 0) {
            ::nanosleep(&pause, nullptr);
        }
        result = tryLock(fd, LockMode::exclusive);
    }
    return result;
}

bool hasLocksOfNode(const MountEntry& mount) {
    const auto options = split(mount.superOptions, ',');
    const auto has = [&](std::string_view option) {
        return std::find(options.begin(), options.end(), option) != options.end();
    };
    if (mount.type.starts_with("nfs")) {
        return has("nolock") || has("local_lock=all") || has("local_lock=flock");
    }
    return mount.type == "lustre" ? has("localflock") : mount.type == "beegfs";
}

bool hasLocksOfNode(const std::string& path) noexcept try {
    struct stat status {};
    checkErrno(::stat(path.c_str(), &status), cat("Failed to examine ", printable(path)));
    const auto device = cat(major(status.st_dev), ':', minor(status.st_dev));
    const auto mounts = readMountTable();
    return std::any_of(mounts.begin(), mounts.end(), [&](const MountEntry& mount) {
        return mount.device == device && hasLocksOfNode(mount);
    });
} catch (const std::exception& error) {
    logDebug("Flock", error.what());
    return false;
}

bool hasName(int fd, const std::string& path, int flags) {
    struct stat byName {};
    struct stat byFd {};
    return ::fstatat(AT_FDCWD, path.c_str(), &byName, flags) == 0 && ::fstat(fd, &byFd) == 0 &&
           byName.st_ino == byFd.st_ino && byName.st_dev == byFd.st_dev;
}

}  // namespace sarus
