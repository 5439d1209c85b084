#include "starter/rootfs/overlay.hpp"

#include <sys/mount.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "node/fuse.hpp"
#include "node/selinux.hpp"
#include "served_image/server.hpp"

namespace sarus::starter {

namespace {

/// Scope in which relative paths start at a directory. Afterwards the working directory is "/", the starter's
/// default.
class WorkingDirectory {
public:
    explicit WorkingDirectory(const std::string& path) {
        checkErrno(::chdir(path.c_str()), cat("Failed to change to directory ", printable(path)));
    }
    WorkingDirectory(const WorkingDirectory&) = delete;
    WorkingDirectory& operator=(const WorkingDirectory&) = delete;
    ~WorkingDirectory() {
        if (::chdir("/") != 0) {
            ::_exit(1);  // "/" can always be entered
        }
    }
};

bool hasUserXattrs(const std::string& directory) {
    constexpr auto name = "user.sarus.probe";
    if (::setxattr(directory.c_str(), name, "1", 1, 0) != 0) {
        return false;
    }
    ::removexattr(directory.c_str(), name);
    return true;
}

std::string layers(const OverlayDirectories& directories) {
    return cat("lowerdir=", directories.lower, ",upperdir=", directories.upper,
               ",workdir=", directories.work);
}

void mountKernelOverlay(const OverlayDirectories& directories, const std::optional<std::string>& label,
                        const Credentials& credentials) {
    constexpr unsigned long flags = MS_NOSUID | MS_NODEV;
    const auto options =
        node::withMountLabel(layers(directories) + (credentials.privileged() ? "" : ",userxattr"), label);
    const auto strict = options + ",redirect_dir=nofollow,metacopy=off";
    const auto* const target = directories.target.c_str();
    if (::mount("overlay", target, "overlay", flags, strict.c_str()) == 0 ||
        (errno == EINVAL &&
         ::mount("overlay", target, "overlay", flags, options.c_str()) == 0)) {  // before Linux 4.19
        return;
    }
    const int error = errno;
    std::string hint;
    if (error == ENODEV) {
        hint = "The kernel has no overlay filesystem (modprobe overlay)";
    } else if (!credentials.privileged() && (error == EPERM || error == EINVAL)) {
        hint = "Overlays in user namespaces need Linux 5.11 or newer, or fuse-overlayfs and /dev/fuse";
    }
    throw Error::fromErrno("Failed to mount the overlay of the root filesystem", error, std::move(hint));
}

}  // namespace

Child mountFuseOverlay(const OverlayDirectories& directories, const std::string& program,
                       const Credentials& credentials) {
    const WorkingDirectory here(directories.base);
    const auto failed = [&](const std::string& why) {
        return Error(cat("Failed to mount the overlay of the root filesystem with ", program, ": ", why));
    };
    auto fuse = node::openFuseDevice();
    if (!fuse.fd) {
        throw failed(fuse.whyNot);
    }
    // Its layers are in our namespace, so it must stay there; it dies with us, so it does not keep the
    // namespace alive.
    served_image::Server server({.program = program,
                                 .args = {program, "-f", "-o", layers(directories), "/dev/fd/3"},
                                 .diesWithParent = true},
                                std::move(fuse.fd));
    if (!server.mount({.name = "fuse-overlayfs",
                       .target = directories.target,
                       .flags = MS_NOSUID | MS_NODEV | MS_NOATIME,
                       .options = cat("user_id=", credentials.ownerUid(),
                                      ",group_id=", credentials.ownerGid(), ",allow_other")})) {
        throw failed(Error::fromErrno("the kernel refuses a FUSE mount", errno).what());
    }
    server.release();
    const auto answer = server.waitForAnswer(std::chrono::seconds(30));
    if (answer != served_image::Answer::yes) {
        throw failed(answer == served_image::Answer::late ? "it did not answer within 30 s"
                                                          : server.endAndGetOutput());
    }
    return server.takeChild();
}

Child mountOverlay(const OverlayDirectories& directories, const std::string& prefix,
                   const std::optional<std::string>& label, const Credentials& credentials) {
    if (!credentials.privileged() && !hasUserXattrs(cat(directories.base, '/', directories.upper))) {
        if (const auto program = node::usableFuseOverlayfs(prefix)) {
            return mountFuseOverlay(directories, *program, credentials);
        }
        logWarn(
            "Rootfs",
            "directories of the image cannot be replaced in this container: the kernel is older than 6.6 and "
            "fuse-overlayfs cannot be used");
    }
    const WorkingDirectory here(directories.base);
    mountKernelOverlay(directories, label, credentials);
    return {};
}

}  // namespace sarus::starter
