#include "starter/image/image_mount.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/path_checker.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "engine/site_rule.hpp"
#include "starter/image/fuse_image.hpp"
#include "starter/image/loop_device.hpp"
#include "starter/image/shared_image.hpp"
#include "starter/image/unpacked_image.hpp"

namespace sarus::starter {

namespace {

void checkImageDescriptor(int imageFd, const std::string& imagePath) {
    const auto shown = printable(imagePath);
    struct stat status {};
    checkErrno(::fstat(imageFd, &status), cat("Failed to inspect image ", shown));
    const int flags = checkErrno(::fcntl(imageFd, F_GETFL), cat("Failed to inspect image ", shown));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat("Failed to use image ", shown, ": not a regular file"));
    }
    if (status.st_size == 0) {
        throw Error(cat("Failed to use image ", shown, ": the file is empty"),
                    "Remove it with 'sarus rmi' and pull it again");
    }
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_PATH) != 0) {
        throw Error(cat("Failed to use image ", shown, ": its descriptor is not open for reading alone"));
    }
}

void logMount(const ImageMountRequest& request, std::string_view how) {
    if (logLevel() <= LogLevel::info) {
        logInfo("Rootfs", cat("Image ", printable(request.imagePath), " is ", how));
    }
}

MountedImage mountUnpacked(const ImageMountRequest& request, const Credentials& credentials) {
    auto unpacked = openUnpackedImage(request.imageFd, request.imagePath, request.tempDir,
                                      request.imageBuilderPath, credentials);
    const auto target = openFile(request.target, O_PATH | O_DIRECTORY);
    logMount(request, "used unpacked, from a directory");
    bindMount(unpacked.directory.get(), target.get(), {.readonly = true, .nosuid = true, .nodev = true});
    MountedImage mounted;
    mounted.lock = std::move(unpacked.lock);
    return mounted;
}

bool kernelMayMount(const ImageMountRequest& request) {
    if (!request.whyNotByKernel.empty()) {
        return false;
    }
    switch (request.policy) {
        case engine::ImageMountPolicy::kernel:
            return true;
        case engine::ImageMountPolicy::kernelForRootOwned:
            return isRootOwnedImage(request.imageFd);
        case engine::ImageMountPolicy::fuse:
            break;
    }
    return false;
}

}  // namespace

MountedImage::MountedImage() noexcept = default;
MountedImage::MountedImage(MountedImage&& other) noexcept = default;
MountedImage& MountedImage::operator=(MountedImage&& other) noexcept = default;
MountedImage::~MountedImage() = default;

pid_t MountedImage::sharedChild() const noexcept {
    return shared ? shared->childPid() : -1;
}

bool MountedImage::forgetHelper(pid_t pid) noexcept {
    if (pid > 0 && helper.pid() == pid) {
        helper.release();
        return true;
    }
    if (pid > 0 && sharedChild() == pid) {
        shared->forgetChild();
        return true;
    }
    return false;
}

int MountedImage::foreignServer() const noexcept {
    return shared ? shared->serverFd() : -1;
}

bool isRootOwnedImage(int imageFd) {
    struct stat status {};
    struct statfs filesystem {};
    checkErrno(::fstat(imageFd, &status), "Failed to inspect the image");
    checkErrno(::fstatfs(imageFd, &filesystem), "Failed to inspect the image's filesystem");
    if (!S_ISREG(status.st_mode) || filesystem.f_type == FUSE_SUPER_MAGIC) {
        return false;
    }
    try {
        // The descriptor may come from another mount namespace, where a user's own filesystem can claim that
        // root owns it.
        PathChecker paths({});
        const auto found = paths.check(pathOfDescriptor(imageFd));
        return found && found->status.st_dev == status.st_dev && found->status.st_ino == status.st_ino;
    } catch (const Error&) {
        return false;
    }
}

MountedImage mountImage(const ImageMountRequest& request, const Credentials& credentials) {
    // On the user's own FUSE mount, only a process that is the user completely may ask about the file.
    credentials.asUser([&] { checkImageDescriptor(request.imageFd, request.imagePath); });
    if (credentials.privileged() && kernelMayMount(request)) {
        mountThroughLoopDevice(request.imageFd, request.imagePath, request.target, {.label = request.label});
        logMount(request, "mounted by the kernel, from a loop device");
        return {};
    }
    if (credentials.privileged() && request.onlyByKernel) {
        throw engine::siteForbids(
            cat("the image ", printable(request.imagePath), ", because the kernel may not mount it"),
            "imagePolicy");
    }
    auto fuse = mountThroughFuse(request, credentials);
    if (fuse.whyNot.empty()) {
        logMount(request, fuse.joined ? "mounted by sarus-squashfs, together with other containers"
                                      : "mounted by sarus-squashfs");
        return std::move(fuse.image);
    }
    if (credentials.privileged()) {
        throw Error(cat("Failed to mount image ", printable(request.imagePath), ": ", fuse.whyNot),
                    request.whyNotByKernel.empty()
                        ? "The site's imageMount policy asks for FUSE for this image"
                        : cat("The kernel does not mount this image because ", request.whyNotByKernel,
                              ": let users open /dev/fuse, or copy the image to another file system"))
            .setId("fuse-unavailable");
    }
    logInfo("Rootfs", fuse.whyNot);
    return mountUnpacked(request, credentials);
}

}  // namespace sarus::starter
