#include "starter/unpacked_image.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "starter/private_directory.hpp"

namespace sarus::starter {

namespace {

void lockFile(int fd, int operation, const std::string& shown) {
    while (::flock(fd, operation) != 0) {
        if (errno != EINTR) {
            throwErrno(cat("Failed to lock ", printable(shown)));
        }
    }
}

/// Opens and locks (shared) the lock file of an image; again, if a sweep removed it in between.
UniqueFd lockShared(int cache, const std::string& name, const std::string& shown) {
    for (;;) {
        UniqueFd file = openFileAt(cache, name, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        lockFile(file.get(), LOCK_SH, shown);
        struct stat status {};
        checkErrno(::fstat(file.get(), &status), cat("Failed to inspect the lock in ", printable(shown)));
        if (status.st_nlink > 0) {
            return file;
        }
    }
}

void unpack(int imageFd, const std::string& imagePath, int cache, const std::string& name, const std::string& imageBuilderPath) {
    // By descriptor: the directory above the cache may be everybody's.
    const auto partial = cat(descriptorPath(cache), '/', name, ".partial");
    removeTree(partial);
    const auto output = runAndCapture({.path = imageBuilderPath,
                                       .args = {imageBuilderPath, "unpack", descriptorPath(imageFd), partial},
                                       .environment = std::vector<std::string>{"PATH=/usr/bin:/bin"},
                                       .keepFds = {imageFd, cache}});
    if (!output.status.ok()) {
        removeTree(partial);
        const auto message = trim(output.err);
        throw Error(
            cat("Failed to unpack image ", printable(imagePath), ": ", message.empty() ? "sarus-image-builder failed" : message));
    }
    checkErrno(::renameat(cache, cat(name, ".partial").c_str(), cache, name.c_str()),
               cat("Failed to keep the unpacked image ", printable(imagePath)));
}

}  // namespace

UnpackedImage openUnpackedImage(int imageFd, const std::string& imagePath, const std::string& tempDir,
                                const std::string& imageBuilderPath, const Credentials& credentials) {
    struct stat image {};
    checkErrno(::fstat(imageFd, &image), cat("Failed to inspect image ", printable(imagePath)));
    const auto own = makeOwnDirectory(tempDir, credentials.uid(), credentials.ownerUid());
    const auto shown = cat(own.path, "/unpacked");
    const auto cache = makePrivateDirectory(own.fd.get(), "unpacked", shown, 0700, credentials.ownerUid());

    const auto name = cat(static_cast<std::uint64_t>(image.st_dev), '-', static_cast<std::uint64_t>(image.st_ino), '-',
                          static_cast<std::int64_t>(image.st_size), '-',
                          static_cast<std::int64_t>(image.st_mtim.tv_sec) * 1000000000 + image.st_mtim.tv_nsec);
    UnpackedImage result;
    result.lock = lockShared(cache.get(), cat(name, ".lock"), shown);
    ::futimens(result.lock.get(), nullptr);  // only the order in which copies are swept depends on it
    const auto open = [&] {
        return UniqueFd(::openat(cache.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    };
    result.directory = open();
    if (!result.directory) {
        // A lock of its own for this: the other one is held as long as a container runs, and containers may wait for each other.
        const auto turn = openFileAt(cache.get(), cat(name, ".unpacking"), O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        lockFile(turn.get(), LOCK_EX, shown);
        result.directory = open();
        if (!result.directory) {
            logWarn("Rootfs", cat("FUSE cannot be used on this node: unpacking the image into ", printable(shown), ", once"));
            unpack(imageFd, imagePath, cache.get(), name, imageBuilderPath);
            result.directory = open();
        }
    }
    if (!result.directory) {
        throwErrno(cat("Failed to open the unpacked image in ", printable(shown)));
    }
    return result;
}

}  // namespace sarus::starter
