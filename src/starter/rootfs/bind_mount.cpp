#include "starter/rootfs/bind_mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "engine/mount_rules.hpp"
#include "node/selinux.hpp"
#include "oci/runtime/runtime_devices.hpp"

namespace sarus::starter {

namespace {

/// "dir/." makes the kernel mount what an automounter provides there; a plain O_PATH of the last component
/// does not.
UniqueFd openPathWithAutomount(const std::string& path) {
    UniqueFd fd(::open(cat(path, "/.").c_str(), O_PATH | O_CLOEXEC));
    return fd ? std::move(fd) : UniqueFd(::open(path.c_str(), O_PATH | O_CLOEXEC));
}

/// Does not follow magic links in /proc: those of this process do not belong to the user.
UniqueFd openWithoutMagicLinks(const std::string& path) {
    const UniqueFd host(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    UniqueFd fd = tryOpenInRoot(host.get(), cat(path, "/."));
    return fd ? std::move(fd) : tryOpenInRoot(host.get(), path);
}

bool mayBeUsersAlone(int error) {
    return error == EACCES || error == EPERM || error == ESTALE;
}

/// Whether the opened node is the one at this path in /dev, where users can neither create nodes nor mount.
bool isHostsOwnNode(int fd, const std::string& path) {
    const UniqueFd directory(::open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC));
    return directory && mountIdOf(directory.get()) == mountIdOf(fd) &&
           pathOfDescriptor(fd) == engine::normalizePath(path);
}

}  // namespace

ContainerTree::ContainerTree(const Credentials& theCredentials, const engine::SiteConfig& theConfig,
                             int rootFd, int devFd)
    : credentials(theCredentials),
      config(theConfig),
      root(rootFd),
      dev(devFd),
      rootPath(pathOfDescriptor(rootFd)),
      rootMount(mountIdOf(rootFd)),
      devMount(mountIdOf(devFd)) {}

ContainerTree::Source ContainerTree::openSource(const std::string& path, engine::MountOrigin origin) const {
    // Inspect it with the credentials that opened it: on a network or FUSE filesystem root may be refused
    // access even to an open file.
    const bool asUserAlone = engine::isLookedUpAsUser(origin);
    const auto open = [&path, asUserAlone] {
        Source source{.fd = asUserAlone ? openWithoutMagicLinks(path) : openPathWithAutomount(path)};
        if (source.fd && ::fstat(source.fd.get(), &source.status) != 0) {
            source.fd = UniqueFd(-1);
        }
        source.error = source.fd ? 0 : errno;
        return source;
    };
    if (!asUserAlone) {
        auto source = open();
        if (source.fd || !mayBeUsersAlone(source.error)) {
            return source;
        }
    }
    auto source = credentials.asUser(open);
    // Mounting it in itself repeatedly would give the container any number of mounts.
    if (asUserAlone && source.fd && isSameOrBelow(pathOfDescriptor(source.fd.get()), rootPath)) {
        throw Error("the source is a part of the container itself");
    }
    return source;
}

void ContainerTree::requireOwnMount(int directory) const {
    const auto mount = mountIdOf(directory);
    if (mount != rootMount && mount != devMount) {
        throw Error(cat("Mount destination (", printable(pathOfDescriptor(directory)),
                        ") is not on a device allowed for mounts"));
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
    const Creation creation{.owner = credentials.ownerUid(),
                            .group = credentials.ownerGid(),
                            .permit = [this](int parent, const auto&) { requireOwnMount(parent); }};
    UniqueFd fd = createInRoot(root, path, kind, creation);
    requireOwnMount(fd.get());
    return fd;
}

std::string ContainerTree::pathInside(int resolved) const {
    auto path = pathOfDescriptor(resolved);
    if (!isSameOrBelow(path, rootPath)) {
        // Cannot happen, but the steps below rely on it.
        throw Error(cat(printable(path), " is outside of the root filesystem"));
    }
    path.erase(0, rootPath.size());
    return path.empty() ? "/" : path;
}

void ContainerTree::bindSource(const Source& source, const std::string& destination,
                               const BindAttributes& attributes, engine::MountOrigin origin) const {
    const auto kind = S_ISDIR(source.status.st_mode) ? EntryKind::directory : EntryKind::file;
    UniqueFd target;
    try {
        target = openDestination(destination, kind);
    } catch (const Error& error) {
        if (error.errnum() == ENOTDIR || error.errnum() == EISDIR) {
            throw Error(
                kind == EntryKind::directory
                    ? "the source is a directory, but the destination, or a part of its path, is a file"
                    : "the source is a file, but the destination is a directory");
        }
        throw;
    }
    if (const auto why =
            engine::whyNotMountedOn(pathInside(target.get()), destination, origin, config.userMounts)) {
        throw Error(*why);
    }
    bindMount(source.fd.get(), target.get(), attributes);
}

void ContainerTree::mountTmpfs(const engine::PlannedMount& mount) const {
    const auto target = openDestination(mount.destination, EntryKind::directory);
    if (const auto why = engine::whyNotMountedOn(pathInside(target.get()), mount.destination, mount.origin,
                                                 config.userMounts)) {
        throw Error(*why);
    }
    const auto size = *mount.tmpfsSize == 0 ? std::string() : cat(",size=", *mount.tmpfsSize);
    const auto options = cat("mode=0755,uid=", credentials.ownerUid(), ",gid=", credentials.ownerGid(), size);
    mountFilesystem("tmpfs", descriptorPath(target.get()), "tmpfs", MS_NOSUID | MS_NODEV,
                    node::withMountLabel(options, config.selinuxMountLabel));
}

void ContainerTree::bind(const engine::PlannedMount& mount) const {
    try {
        if (mount.tmpfsSize) {
            mountTmpfs(mount);
            return;
        }
        const auto source = openSource(mount.source, mount.origin);
        if (!source.fd && source.error == ENOENT && engine::mayBeMissing(mount.origin)) {
            logInfo("Rootfs", cat("There is no ", printable(mount.source), ", so it is not mounted (",
                                  printable(mount.request), ")"));
            return;
        }
        if (!source.fd) {
            throw Error::fromErrno(
                "Failed to find real path for mount source", source.error,
                source.error == ELOOP
                    ? "Links such as /proc/self/fd/0 cannot be followed: name the file itself"
                    : "");
        }
        bindSource(source, mount.destination,
                   {.readonly = mount.readonly,
                    .nodev = engine::isNodev(mount, source.status),
                    .noexec = mount.noexec},
                   mount.origin);
    } catch (Error& error) {
        error.addContext(
            cat("Failed to ", mount.tmpfsSize ? "" : "bind ", "mount ", printable(mount.source),
                " on container's ", printable(mount.destination),
                mount.origin == engine::MountOrigin::cdi ? cat(" for ", printable(mount.request)) : ""));
        throw;
    }
}

/// Created in /dev, the only place of the container where nodes work, and bound to its destination from
/// there.
void ContainerTree::makeNode(const engine::PlannedDevice& device, const engine::DeviceNode& node) const {
    constexpr const char* name = ".sarus-node";
    checkErrno(::mknodat(dev, name, node.mode, node.number), "Failed to create the device node");
    try {
        checkErrno(::fchownat(dev, name, node.uid, node.gid, AT_SYMLINK_NOFOLLOW),
                   "Failed to set the owner of the device node");
        checkErrno(::fchmodat(dev, name, node.mode & ~static_cast<mode_t>(S_IFMT), 0),
                   "Failed to set the mode of the device node");
        Source source{.fd = UniqueFd(::openat(dev, name, O_PATH | O_NOFOLLOW | O_CLOEXEC))};
        checkErrno(::fstat(checkErrno(source.fd.get(), "Failed to open the device node"), &source.status),
                   "Failed to examine the device node");
        bindSource(source, device.destination, {}, device.origin);
    } catch (...) {
        ::unlinkat(dev, name, 0);
        throw;
    }
    checkErrno(::unlinkat(dev, name, 0), "Failed to remove the device node's first name");
}

std::optional<oci::RuntimeDeviceRule> ContainerTree::bindDevice(const engine::PlannedDevice& device) const {
    try {
        const auto source = openSource(device.source, device.origin);
        const auto node = engine::decideNode(
            device, {.status = source.fd ? &source.status : nullptr, .error = source.error},
            {.uid = credentials.ownerUid(),
             .gid = credentials.ownerGid(),
             .privileged = credentials.privileged()});
        if (node.mustBeHosts && !isHostsOwnNode(source.fd.get(), device.source)) {
            throw Error(cat("\"", printable(device.source), "\" is no node of its own in /dev"),
                        "An owner or a mode of another node needs type, major and minor in the CDI file");
        }
        if (node.isNew) {
            makeNode(device, node);
        } else {
            bindSource(source, device.destination, {}, device.origin);
        }
        if (S_ISFIFO(node.mode) || device.access.empty()) {
            return std::nullopt;
        }
        return oci::RuntimeDeviceRule{.allow = true,
                                      .type = S_ISCHR(node.mode) ? 'c' : 'b',
                                      .major = major(node.number),
                                      .minor = minor(node.number),
                                      .access = device.access};
    } catch (Error& error) {
        error.addContext(cat("Invalid device request '", printable(device.request), "'"));
        throw;
    }
}

bool ContainerTree::createWorkdir(const std::string& path) const {
    if (engine::isWorkdirOfRuntime(path)) {
        return true;  // the runtime mounts it later
    }
    try {
        bool mayEnter = false;
        const auto look = [&] {
            auto found = tryOpenInRoot(root, path);
            mayEnter = (found && ::faccessat(found.get(), "", X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0) ||
                       errno != EACCES;
            return found;
        };
        UniqueFd directory = credentials.asUser(look);
        if (!directory) {
            directory = openDestination(path, EntryKind::directory);
            credentials.asUser(look);
        }
        engine::checkResolvedWorkdir(pathInside(directory.get()));  // a link of the image may lead anywhere
        return mayEnter;
    } catch (Error& error) {
        error.addContext(cat("Failed to create the working directory ", printable(path)));
        throw;
    }
}

void ContainerTree::createHome(const std::string& path) const {
    try {
        if (engine::isWorkdirOfRuntime(path) ||
            credentials.asUser([&] { return tryOpenInRoot(root, path); })) {
            return;
        }
        const Creation creation{.owner = credentials.ownerUid(),
                                .group = credentials.ownerGid(),
                                .permit = [this](int parent, const auto&) { requireOwnMount(parent); }};
        createInRoot(root, path, EntryKind::directory, creation);
    } catch (const Error& error) {
        logInfo("Rootfs", cat("The home directory ", printable(path), " is not created: ", error.what()));
    }
}

void ContainerTree::requireDevForRuntime() const {
    const UniqueFd now(checkErrno(::openat(root, "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                                  "Failed to open /dev"));
    if (mountIdOf(now.get()) != devMount) {
        throw Error("Something is mounted on the container's /dev");
    }
    for (const auto name : oci::runtimeDevices) {
        struct stat status {};
        if (::fstatat(dev, std::string(name).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT) {
            throw Error(cat("The container's /dev/", name, " is taken: the OCI runtime has to make it"));
        }
    }
}

}  // namespace sarus::starter
