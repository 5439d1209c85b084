#include "starter/image/unpacked_image.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/private_directory.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

/// False if the filesystem does not support locks.
bool lockFile(int fd, int operation, const std::string& shown) {
    while (::flock(fd, operation) != 0) {
        if (isLockUnsupported(errno)) {
            return false;
        }
        if (errno != EINTR) {
            throwErrno(cat("Failed to lock ", printable(shown)));
        }
    }
    return true;
}

/// Opens and locks (shared) the lock file of an image. Retries if a sweep removed it in between.
UniqueFd lockShared(int cache, const std::string& name, const std::string& shown) {
    for (;;) {
        UniqueFd file = openFileAt(cache, name, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        if (!lockFile(file.get(), LOCK_SH, shown)) {
            logWarn("Rootfs", cat("The filesystem of \"", printable(shown),
                                  "\" has no file locks: unpacked images stay there"));
        }
        struct stat status {};
        checkErrno(::fstat(file.get(), &status), cat("Failed to inspect the lock in ", printable(shown)));
        if (status.st_nlink > 0) {
            return file;
        }
    }
}

/// `partialName`: used by nobody else at the same time.
void unpack(int imageFd, const std::string& imagePath, int cache, const std::string& name,
            const std::string& partialName, const std::string& imageBuilderPath) {
    // By descriptor: the directory above the cache may be world-writable.
    const auto partial = cat(descriptorPath(cache), '/', partialName);
    removeTree(partial);
    const auto output = runAndCapture({.path = imageBuilderPath,
                                       .args = {imageBuilderPath, "unpack", descriptorPath(imageFd), partial},
                                       .environment = std::vector<std::string>{"PATH=/usr/bin:/bin"},
                                       .keepFds = {imageFd, cache}});
    if (!output.status.ok()) {
        removeTree(partial);
        const auto message = trim(output.err);
        throw Error(cat("Failed to unpack image ", printable(imagePath), ": ",
                        message.empty() ? "sarus-image-builder failed" : message));
    }
    if (::renameat(cache, partialName.c_str(), cache, name.c_str()) != 0) {
        const int errnum = errno;
        removeTree(partial);
        if (errnum != EEXIST && errnum != ENOTEMPTY) {  // without locks another process may have been faster
            throw Error::fromErrno(cat("Failed to keep the unpacked image ", printable(imagePath)), errnum);
        }
    }
}

}  // namespace

UnpackedImage openUnpackedImage(int imageFd, const std::string& imagePath, const std::string& tempDir,
                                const std::string& imageBuilderPath, const Credentials& credentials) {
    struct stat image {};
    checkErrno(::fstat(imageFd, &image), cat("Failed to inspect image ", printable(imagePath)));
    const auto own = makeOwnDirectory(tempDir, cat("sarus-", credentials.uid()), credentials.ownerUid());
    const auto shown = cat(own.path, "/unpacked");
    const auto cache = makePrivateDirectory(own.fd.get(), "unpacked", shown, 0700, credentials.ownerUid());

    const auto name =
        cat(static_cast<std::uint64_t>(image.st_dev), '-', static_cast<std::uint64_t>(image.st_ino), '-',
            static_cast<std::int64_t>(image.st_size), '-',
            static_cast<std::int64_t>(image.st_mtim.tv_sec) * 1000000000 + image.st_mtim.tv_nsec);
    UnpackedImage result;
    result.lock = lockShared(cache.get(), cat(name, ".lock"), shown);
    ::futimens(result.lock.get(), nullptr);  // affects only the order in which copies are swept
    const auto open = [&] {
        return UniqueFd(::openat(cache.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    };
    result.directory = open();
    if (!result.directory) {
        // A separate lock: the other one is held while a container runs, and containers may wait for each
        // other.
        const auto turn =
            openFileAt(cache.get(), cat(name, ".unpacking"), O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        const bool alone = lockFile(turn.get(), LOCK_EX, shown);
        result.directory = open();
        if (!result.directory) {
            logWarn("Rootfs", cat("FUSE cannot be used on this node: unpacking the image into ",
                                  printable(shown), ", once"));
            unpack(imageFd, imagePath, cache.get(), name,
                   cat(name, ".partial", alone ? "" : cat('-', randomLetters())), imageBuilderPath);
            result.directory = open();
        }
    }
    if (!result.directory) {
        throwErrno(cat("Failed to open the unpacked image in ", printable(shown)));
    }
    return result;
}

}  // namespace sarus::starter
