#include "starter/overlay.hpp"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "starter/helper_process.hpp"
#include "starter/selinux.hpp"

namespace sarus::starter {

namespace {

constexpr auto fuseOverlayProgram = "/usr/bin/fuse-overlayfs";

/// Scope in which relative paths start at a directory; afterwards the working directory is "/", where the starter lives.
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
    return cat("lowerdir=", directories.lower, ",upperdir=", directories.upper, ",workdir=", directories.work);
}

void mountKernelOverlay(const OverlayDirectories& directories, const std::optional<std::string>& label,
                        const Credentials& credentials) {
    constexpr unsigned long flags = MS_NOSUID | MS_NODEV;
    const auto options = withMountLabel(layers(directories) + (credentials.privileged() ? "" : ",userxattr"), label);
    const auto strict = options + ",redirect_dir=nofollow,metacopy=off";
    const auto* const target = directories.target.c_str();
    if (::mount("overlay", target, "overlay", flags, strict.c_str()) == 0 ||
        (errno == EINVAL && ::mount("overlay", target, "overlay", flags, options.c_str()) == 0)) {  // before Linux 4.19
        return;
    }
    const int error = errno;
    std::string hint;
    if (error == ENODEV) {
        hint = "the kernel has no overlay filesystem (modprobe overlay)";
    } else if (!credentials.privileged() && (error == EPERM || error == EINVAL)) {
        hint = "overlays in user namespaces need Linux 5.11 or newer, or fuse-overlayfs and /dev/fuse";
    }
    throw Error::fromErrno("Failed to mount the overlay of the root filesystem", error, std::move(hint));
}

dev_t deviceOf(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_dev : 0;
}

}  // namespace

Child mountFuseOverlay(const OverlayDirectories& directories, const std::string& program, const Credentials& credentials) {
    const WorkingDirectory here(directories.base);
    const auto before = deviceOf(directories.target);
    // It mounts by itself, hence in our namespace; it dies with us, so that it does not keep the namespace alive.
    HelperProcess helper({.program = program,
                          .args = {program, "-f", "-o", layers(directories), directories.target},
                          .ownMountNamespace = false,
                          .dropPrivileges = false},
                         credentials);
    helper.release();
    constexpr int attempts = 10000;
    for (int attempt = 0; attempt < attempts && !helper.hasEnded(); ++attempt) {
        const auto now = deviceOf(directories.target);
        if (now != before && now != 0) {
            checkErrno(
                ::mount(nullptr, directories.target.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV, nullptr),
                "Failed to make the overlay nosuid");
            return helper.takeChild();
        }
        ::usleep(1000);
    }
    throw Error(cat("Failed to mount the overlay of the root filesystem with ", program, ": ", helper.endAndGetOutput()));
}

Child mountOverlay(const OverlayDirectories& directories, const std::optional<std::string>& label,
                   const Credentials& credentials) {
    if (!credentials.privileged() && !hasUserXattrs(cat(directories.base, '/', directories.upper))) {
        if (::access(fuseOverlayProgram, X_OK) == 0 && ::access("/dev/fuse", R_OK | W_OK) == 0) {
            return mountFuseOverlay(directories, fuseOverlayProgram, credentials);
        }
        logWarn("Rootfs",
                "directories of the image cannot be replaced in this container: the kernel is older than 6.6 and "
                "fuse-overlayfs cannot be used");
    }
    const WorkingDirectory here(directories.base);
    mountKernelOverlay(directories, label, credentials);
    return {};
}

}  // namespace sarus::starter
