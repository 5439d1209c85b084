#include "starter/rootfs/overlay.hpp"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "node/fuse.hpp"
#include "node/selinux.hpp"
#include "starter/image/helper_process.hpp"

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

dev_t deviceOf(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_dev : 0;
}

}  // namespace

Child mountFuseOverlay(const OverlayDirectories& directories, const std::string& program,
                       const Credentials& credentials) {
    const WorkingDirectory here(directories.base);
    const auto before = deviceOf(directories.target);
    // It mounts in our namespace, so it must stay there; it dies with us, so it does not keep the namespace
    // alive.
    HelperProcess helper({.program = program,
                          .args = {program, "-f", "-o", layers(directories), directories.target},
                          .ownMountNamespace = false,
                          .dropPrivileges = false},
                         credentials);
    helper.release();
    helper.setDeadline(std::chrono::seconds(30));
    constexpr int attempts = 10000;
    for (int attempt = 0; attempt < attempts && !helper.hasEnded(); ++attempt) {
        const auto now = deviceOf(directories.target);
        if (now != before && now != 0) {
            checkErrno(::mount(nullptr, directories.target.c_str(), nullptr,
                               MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV, nullptr),
                       "Failed to make the overlay nosuid");
            return helper.takeChild();
        }
        ::usleep(1000);
    }
    throw Error(cat("Failed to mount the overlay of the root filesystem with ", program, ": ",
                    helper.endAndGetOutput()));
}

Child mountOverlay(const OverlayDirectories& directories, const std::optional<std::string>& label,
                   const Credentials& credentials) {
    if (!credentials.privileged() && !hasUserXattrs(cat(directories.base, '/', directories.upper))) {
        if (const auto program = node::usableFuseOverlayfs()) {
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
