#include "podman_hpc/store/record_lock.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

/// The mark of the last writer: 64 bytes that no other writer writes.
std::array<char, 64> newToken() {
    std::array<char, 64> token{};
    struct timespec now {};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const auto nanoseconds =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
    const auto pid = static_cast<std::uint32_t>(::getpid());
    std::memcpy(token.data(), &nanoseconds, sizeof nanoseconds);
    std::memcpy(token.data() + 16, &pid, sizeof pid);
    checkErrno(::getrandom(token.data() + 20, token.size() - 20, 0), "Failed to get random bytes");
    return token;
}

UniqueFd lockFile(const std::string& path, bool& supported) {
    auto file = openFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
    supported = lockRecord(file.get(), path) && supported;
    return file;
}

}  // namespace

bool lockRecord(int fd, const std::string& path) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    while (const int errnum = requestLock(path, [&] { return ::fcntl(fd, F_OFD_SETLKW, &lock); })) {
        if (isLockUnsupported(errnum) || errnum == EINVAL) {
            return false;
        }
        if (errnum != EINTR) {
            throw Error::fromErrno(cat("Failed to lock ", printable(path)), errnum);
        }
        throwIfInterrupted();
    }
    return true;
}

bool isRecordLocked(int fd) noexcept {
    struct flock lock {};
    lock.l_type = F_RDLCK;
    lock.l_whence = SEEK_SET;
    return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

StoreWriteLock::StoreWriteLock(const std::string& store,
                               const std::function<void(const std::string&)>& warn) {
    bool supported = true;
    layers = lockFile(cat(store, "/overlay-layers/layers.lock"), supported);
    images = lockFile(cat(store, "/overlay-images/images.lock"), supported);
    if (!supported) {
        warn(cat("The filesystem of ", printable(store),
                 " has no file locks: Podman may fail or wait for ever there. Choose another squash store"));
    }
}

void StoreWriteLock::markChanged() const {
    const auto token = newToken();
    for (const auto* file : {&layers, &images}) {
        if (::pwrite(file->get(), token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
            throwErrno("Failed to write to the lock file of the squash store");
        }
    }
}

}  // namespace sarus::podman_hpc
