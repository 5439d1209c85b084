#include "starter/bind_mount.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "base/mounts.hpp"
#include "base/text.hpp"
#include "engine/mount_request.hpp"

namespace sarus::starter {

namespace {

struct stat statusOf(int fd, std::string_view doing) {
    struct stat status {};
    checkErrno(::fstat(fd, &status), doing);
    return status;
}

/// "dir/." makes the kernel mount what an automounter offers there; a plain O_PATH of the last component would not.
UniqueFd openPathWithAutomount(const std::string& path) {
    UniqueFd fd(::open(cat(path, "/.").c_str(), O_PATH | O_CLOEXEC));
    return fd ? std::move(fd) : UniqueFd(::open(path.c_str(), O_PATH | O_CLOEXEC));
}

bool mayBeUsersAlone(int error) {
    return error == EACCES || error == EPERM || error == ESTALE;
}

}  // namespace

ContainerTree::ContainerTree(const Credentials& theCredentials, const engine::SiteConfig& theConfig, int rootFd, int devFd)
    : credentials(theCredentials),
      config(theConfig),
      root(rootFd),
      rootPath(pathOfDescriptor(rootFd)),
      rootMount(mountIdOf(rootFd)),
      devMount(mountIdOf(devFd)) {}

UniqueFd ContainerTree::openSource(const std::string& path, engine::MountOrigin origin) const {
    UniqueFd fd;
    if (origin == engine::MountOrigin::site) {
        fd = openPathWithAutomount(path);
        if (fd || !mayBeUsersAlone(errno)) {
            return fd;
        }
    }
    int error = 0;
    credentials.asUser([&] {
        fd = openPathWithAutomount(path);
        error = errno;
    });
    errno = error;
    return fd;
}

void ContainerTree::requireOwnMount(int directory) const {
    const auto mount = mountIdOf(directory);
    if (mount != rootMount && mount != devMount) {
        throw Error(
            cat("Mount destination (", printable(pathOfDescriptor(directory)), ") is not on a device allowed for mounts"));
    }
}

UniqueFd ContainerTree::openDestination(const std::string& path, EntryKind kind) const {
    try {
        return credentials.asUser([&] { return createInRoot(root, path, kind); });
    } catch (const Error& error) {
        if (!mayBeUsersAlone(error.errnum())) {
            throw;
        }
    }
    const Creation creation{.owner = credentials.ownerUid(), .group = credentials.ownerGid(), .permit = [this](int parent) {
                                requireOwnMount(parent);
                            }};
    UniqueFd fd = createInRoot(root, path, kind, creation);
    requireOwnMount(fd.get());
    return fd;
}

void ContainerTree::checkResolvedDestination(int resolved, const std::string& destination, engine::MountOrigin origin) const {
    auto path = pathOfDescriptor(resolved);
    if (!engine::isSameOrBelow(path, rootPath)) {
        // Cannot happen; but what follows would be meaningless.
        throw Error(cat("Mount destination ", printable(path), " is outside of the root filesystem"));
    }
    path.erase(0, rootPath.size());
    if (path.empty()) {
        throw Error("the root directory cannot be a mount destination");
    }
    const bool followedNoLink = path == engine::normalizePath(destination);
    if (origin == engine::MountOrigin::site || (origin == engine::MountOrigin::workloadManager && followedNoLink)) {
        return;
    }
    if (const auto why = engine::whyNotMountable(config.userMounts, path)) {
        throw Error(*why);
    }
}

void ContainerTree::bindDescriptor(int source, const std::string& destination, const BindAttributes& attributes,
                                   engine::MountOrigin origin) const {
    const auto status = statusOf(source, "Failed to inspect the mount source");
    const auto kind = S_ISDIR(status.st_mode) ? EntryKind::directory : EntryKind::file;
    UniqueFd target;
    try {
        target = openDestination(destination, kind);
    } catch (const Error& error) {
        if (error.errnum() == ENOTDIR || error.errnum() == EISDIR) {
            throw Error(kind == EntryKind::directory
                            ? "the source is a directory, but the destination, or a part of its path, is a file"
                            : "the source is a file, but the destination is a directory");
        }
        throw;
    }
    checkResolvedDestination(target.get(), destination, origin);
    bindMount(source, target.get(), attributes);
}

void ContainerTree::bind(const engine::PlannedMount& mount) const {
    try {
        const auto source = openSource(mount.source, mount.origin);
        if (!source) {
            throwErrno("Failed to find real path for mount source");
        }
        // Devices are what --device and siteDevices are for; without this a user's mount would get around them.
        const bool nodev = mount.origin != engine::MountOrigin::site;
        bindDescriptor(source.get(), mount.destination, {.readonly = mount.readonly, .nodev = nodev}, mount.origin);
    } catch (Error& error) {
        error.addContext(cat("Failed to bind mount ", printable(mount.source), " on container's ", printable(mount.destination)));
        throw;
    }
}

DeviceRule ContainerTree::bindDevice(const engine::PlannedDevice& device) const {
    try {
        const auto source = openSource(device.source, device.origin);
        if (!source) {
            throw Error::fromErrno(
                cat("Failed to check if file \"", printable(device.source), "\" is a device file. Stat failed"), errno);
        }
        const auto status = statusOf(source.get(), "Failed to inspect the device file");
        if (!S_ISCHR(status.st_mode) && !S_ISBLK(status.st_mode)) {
            throw Error(cat("Source path \"", printable(device.source), "\" is not a device file"));
        }
        bindDescriptor(source.get(), device.destination, {}, device.origin);
        return {.type = S_ISCHR(status.st_mode) ? 'c' : 'b',
                .major = major(status.st_rdev),
                .minor = minor(status.st_rdev),
                .access = device.access};
    } catch (Error& error) {
        error.addContext(cat("Invalid device request '", printable(device.request), "'"));
        throw;
    }
}

void ContainerTree::createWorkdir(const std::string& path) const {
    // What is below these is the runtime's: they are mounted after us.
    for (const std::string_view reserved : {"/proc", "/sys"}) {
        if (engine::isSameOrBelow(path, reserved)) {
            return;
        }
    }
    try {
        if (!tryOpenInRoot(root, path)) {
            openDestination(path, EntryKind::directory);
        }
    } catch (Error& error) {
        error.addContext(cat("Failed to create the working directory ", printable(path)));
        throw;
    }
}

}  // namespace sarus::starter
