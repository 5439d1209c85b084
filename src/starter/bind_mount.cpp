#include "starter/bind_mount.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/text.hpp"
#include "engine/mount_rules.hpp"
#include "engine/run_options.hpp"

namespace sarus::starter {

namespace {

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

ContainerTree::Source ContainerTree::openSource(const std::string& path, engine::MountOrigin origin) const {
    // Inspected by whom it was opened: on a network or FUSE filesystem root may be refused even what it holds open.
    const auto open = [&path] {
        Source source{.fd = openPathWithAutomount(path)};
        if (source.fd && ::fstat(source.fd.get(), &source.status) != 0) {
            source.fd = UniqueFd(-1);
        }
        source.error = source.fd ? 0 : errno;
        return source;
    };
    if (origin == engine::MountOrigin::site) {
        auto source = open();
        if (source.fd || !mayBeUsersAlone(source.error)) {
            return source;
        }
    }
    return credentials.asUser(open);
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

std::string ContainerTree::pathInside(int resolved) const {
    auto path = pathOfDescriptor(resolved);
    if (!engine::isSameOrBelow(path, rootPath)) {
        // Cannot happen; but what follows would be meaningless.
        throw Error(cat(printable(path), " is outside of the root filesystem"));
    }
    path.erase(0, rootPath.size());
    return path.empty() ? "/" : path;
}

void ContainerTree::checkResolvedDestination(int resolved, const std::string& destination, engine::MountOrigin origin) const {
    const auto path = pathInside(resolved);
    if (path == "/") {
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

void ContainerTree::bindSource(const Source& source, const std::string& destination, const BindAttributes& attributes,
                               engine::MountOrigin origin) const {
    const auto kind = S_ISDIR(source.status.st_mode) ? EntryKind::directory : EntryKind::file;
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
    bindMount(source.fd.get(), target.get(), attributes);
}

void ContainerTree::bind(const engine::PlannedMount& mount) const {
    try {
        const auto source = openSource(mount.source, mount.origin);
        if (!source.fd && source.error == ENOENT && mount.origin == engine::MountOrigin::workloadManager) {
            logInfo("Rootfs", cat("There is no ", printable(mount.source), ", which is not mounted therefore (",
                                  printable(mount.request), ")"));
            return;  // left in the environment by a job that has ended, or a file system of another PMIx version
        }
        if (!source.fd) {
            throw Error::fromErrno("Failed to find real path for mount source", source.error);
        }
        // Devices are what --device and siteDevices are for; without this a user's mount would get around them.
        const bool nodev = mount.origin != engine::MountOrigin::site;
        bindSource(source, mount.destination, {.readonly = mount.readonly, .nodev = nodev}, mount.origin);
    } catch (Error& error) {
        error.addContext(cat("Failed to bind mount ", printable(mount.source), " on container's ", printable(mount.destination)));
        throw;
    }
}

DeviceRule ContainerTree::bindDevice(const engine::PlannedDevice& device) const {
    try {
        const auto source = openSource(device.source, device.origin);
        if (!source.fd) {
            throw Error::fromErrno(
                cat("Failed to check if file \"", printable(device.source), "\" is a device file. Stat failed"), source.error);
        }
        const auto& status = source.status;
        if (!S_ISCHR(status.st_mode) && !S_ISBLK(status.st_mode)) {
            throw Error(cat("Source path \"", printable(device.source), "\" is not a device file"));
        }
        bindSource(source, device.destination, {}, device.origin);
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
        UniqueFd directory = credentials.asUser([&] { return tryOpenInRoot(root, path); });
        if (!directory) {
            directory = openDestination(path, EntryKind::directory);
        }
        engine::checkWorkdir(pathInside(directory.get()));  // a link of the image may lead below /proc
    } catch (Error& error) {
        error.addContext(cat("Failed to create the working directory ", printable(path)));
        throw;
    }
}

}  // namespace sarus::starter
