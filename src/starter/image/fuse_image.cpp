#include "starter/image/fuse_image.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "node/fuse.hpp"
#include "node/selinux.hpp"
#include "squashfs/superblock.hpp"
#include "starter/image/helper_process.hpp"
#include "starter/image/shared_image.hpp"

namespace sarus::starter {

namespace {

std::string mountOptions(int fuse, const std::optional<std::string>& label, const Credentials& credentials) {
    auto options = cat("fd=", fuse, ",rootmode=40000,default_permissions,user_id=", credentials.ownerUid(),
                       ",group_id=", credentials.ownerGid());
    // The overlay reads its lower layer as root, which FUSE would refuse. Nobody else enters this mount
    // namespace.
    return credentials.privileged() ? node::withMountLabel(options + ",allow_other", label) : options;
}

HelperProcess::Setup serverSetup(const ImageMountRequest& request, int fuse, const Credentials& credentials,
                                 bool isShared) {
    HelperProcess::Setup setup{.program = request.serverPath,
                               .args = {request.serverPath},
                               .descriptors = {request.imageFd, fuse},
                               .hidden = request.bundleDir,
                               .isShared = isShared};
    if (!credentials.privileged()) {
        setup.args.insert(setup.args.end(),
                          {"-o", cat("uid=", credentials.ownerUid(), ",gid=", credentials.ownerGid())});
    }
    setup.args.insert(setup.args.end(), {"/dev/fd/3", "/dev/fd/4"});
    return setup;
}

void offer(std::unique_ptr<SharedImage>& shared, const std::string& target, pid_t server) {
    try {
        shared->publish(target, server);
    } catch (const Error& error) {
        logDebug("Rootfs", cat("No other container can share the image: ", error.what()));
        shared.reset();
    }
}

/// Throws Error, with the errno of the mount if that failed.
MountedImage serve(const ImageMountRequest& request, UniqueFd fuse, const Credentials& credentials,
                   std::unique_ptr<SharedImage> shared) {
    const auto& target = request.target;
    const auto options = mountOptions(fuse.get(), request.label, credentials);
    HelperProcess helper(serverSetup(request, fuse.get(), credentials, shared != nullptr), credentials);
    // The helper already has a mount namespace of its own, in which this mount does not appear.
    constexpr unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
    if (::mount("sarus-squashfs", target.c_str(), "fuse.sarus-squashfs", flags, options.c_str()) != 0) {
        throwErrno(cat("Failed to mount the image on ", printable(target)));
    }
    helper.release();
    fuse.reset();  // the connection ends with the server
    if (shared) {
        offer(shared, target, helper.pid());
    }
    helper.setDeadline(request.patience);
    // Returns once the server answers or is gone.
    const UniqueFd root(::open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (root) {
        MountedImage mounted;
        mounted.shared = std::move(shared);
        if (mounted.shared) {
            mounted.shared->adopt(helper.takeChild());
        } else {
            mounted.helper = helper.takeChild();
        }
        return mounted;
    }
    ::umount2(target.c_str(), MNT_DETACH);
    if (helper.wasTooSlow()) {
        throw Error(cat("Failed to mount image ", printable(request.imagePath), ": ", request.serverPath,
                        " did not answer within ", request.patience.count(), " s"),
                    "Check that the file system of the image answers");
    }
    const auto output = helper.endAndGetOutput();
    throw Error(cat("Failed to mount image ", printable(request.imagePath), ": ",
                    output.empty() ? "sarus-squashfs ended without a message" : output),
                squashfs::pullAgain);
}

/// Whether the mount of another container's server can be used.
bool confirm(SharedImage& shared, const ImageMountRequest& request) {
    try {
        shared.publish(request.target);
        if (answersInTime(request.target, request.patience)) {
            return true;
        }
        logDebug("Rootfs", "The other containers' server of the image does not answer");
    } catch (const Error& error) {
        logDebug("Rootfs", error.what());
    }
    return false;
}

}  // namespace

FuseImage mountThroughFuse(const ImageMountRequest& request, const Credentials& credentials) {
    const auto superblock = credentials.asUser(
        [&] { return squashfs::readSquashfsSuperblock(request.imageFd, request.imagePath); });
    auto shared = SharedImage::open(request, superblock.file, credentials);
    if (shared && shared->join(request.target)) {
        if (confirm(*shared, request)) {
            FuseImage mounted{.joined = true};
            mounted.image.shared = std::move(shared);
            return mounted;
        }
        ::umount2(request.target.c_str(), MNT_DETACH);
        shared.reset();  // then a server serves this container alone
    }
    auto fuse = node::openFuseDevice();
    if (!fuse.fd) {
        return {.whyNot = std::move(fuse.whyNot)};
    }
    try {
        return {.image = serve(request, std::move(fuse.fd), credentials, std::move(shared))};
    } catch (const Error& error) {
        if (error.errnum() != EPERM && error.errnum() != ENODEV) {
            throw;
        }
        return {.whyNot = error.what()};  // before Linux 4.18, or forbidden by the site
    }
}

}  // namespace sarus::starter
