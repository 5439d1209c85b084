#include "starter/image/fuse_image.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "node/fuse.hpp"
#include "node/selinux.hpp"
#include "served_image/server.hpp"
#include "squashfs/superblock.hpp"
#include "starter/image/shared_image.hpp"

namespace sarus::starter {

namespace {

using served_image::Answer;
using served_image::Server;

std::string mountOptions(const std::optional<std::string>& label, const Credentials& credentials) {
    auto options = cat("user_id=", credentials.ownerUid(), ",group_id=", credentials.ownerGid());
    // The overlay reads its lower layer as root, which FUSE would refuse. Nobody else enters this mount
    // namespace.
    return credentials.privileged() ? node::withMountLabel(options + ",allow_other", label) : options;
}

/// The kernel reduces them to those of the cgroup. A failure costs only time.
void useAllProcessors() {
    std::array<unsigned long, 128> all{};
    all.fill(~0UL);
    ::syscall(SYS_sched_setaffinity, 0, sizeof all, all.data());
}

/// In the server's process.
void becomeUser(const ImageMountRequest& request, const Credentials& credentials) {
    checkErrno(::unshare(CLONE_NEWNS), "Failed to create a mount namespace");
    // The user can look into the server's through /proc/PID/root while root still works on the mount.
    if (!request.bundleDir.empty()) {
        checkErrno(::umount2(request.bundleDir.c_str(), MNT_DETACH), "Failed to hide the container");
    }
    becomeCaller(credentials);
}

/// A shared server also serves containers of starters that are bound to other processors, and outlives this
/// one.
Server::Setup serverSetup(const ImageMountRequest& request, const Credentials& credentials, bool isShared) {
    Server::Setup setup{.program = request.serverPath,
                        .args = {request.serverPath},
                        .descriptors = {request.imageFd},
                        .enter =
                            [&request, &credentials, isShared] {
                                becomeUser(request, credentials);
                                if (isShared) {
                                    useAllProcessors();
                                }
                            },
                        .diesWithParent = !isShared};
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
    Server server(serverSetup(request, credentials, shared != nullptr), std::move(fuse));
    if (!server.mount({.name = "sarus-squashfs",
                       .target = target,
                       .flags = MS_RDONLY | MS_NOSUID | MS_NODEV,
                       .options = mountOptions(request.label, credentials)})) {
        throwErrno(cat("Failed to mount the image on ", printable(target)));
    }
    server.release();
    if (shared) {
        offer(shared, target, server.pid());
    }
    const auto answer = server.waitForAnswer(request.patience);
    if (answer == Answer::yes) {
        MountedImage mounted;
        mounted.shared = std::move(shared);
        if (mounted.shared) {
            mounted.shared->adopt(server.takeChild());
        } else {
            mounted.helper = server.takeChild();
        }
        return mounted;
    }
    if (answer == Answer::late) {
        throw Error(cat("Failed to mount image ", printable(request.imagePath), ": ", request.serverPath,
                        " did not answer within ", request.patience.count(), " s"),
                    "Check that the file system of the image answers");
    }
    const auto output = server.endAndGetOutput();
    throw Error(cat("Failed to mount image ", printable(request.imagePath), ": ",
                    output.empty() ? "sarus-squashfs ended without a message" : output),
                squashfs::pullAgain);
}

/// Whether the mount of another container's server can be used.
bool confirm(SharedImage& shared, const ImageMountRequest& request) {
    try {
        shared.publish(request.target);
        const auto mount = openFile(request.target, O_PATH | O_DIRECTORY);
        if (served_image::askServer(mount.get(), request.patience) == Answer::yes) {
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
