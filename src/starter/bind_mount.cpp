#include "starter/bind_mount.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"
#include "base/text.hpp"
#include "engine/mount_rules.hpp"
#include "engine/run_options.hpp"
#include "oci/runtime_devices.hpp"

namespace sarus::starter {

namespace {

/// "dir/." makes the kernel mount what an automounter offers there; a plain O_PATH of the last component would not.
UniqueFd openPathWithAutomount(const std::string& path) {
    UniqueFd fd(::open(cat(path, "/.").c_str(), O_PATH | O_CLOEXEC));
    return fd ? std::move(fd) : UniqueFd(::open(path.c_str(), O_PATH | O_CLOEXEC));
}

/// Those which every container has anyway: what is mounted over a file to mask it, most of all /dev/null.
bool isUsualDevice(const struct stat& status) {
    const auto& usual = oci::usualDeviceNumbers;
    return S_ISCHR(status.st_mode) &&
           std::find(usual.begin(), usual.end(), std::pair(major(status.st_rdev), minor(status.st_rdev))) != usual.end();
}

bool mayBeUsersAlone(int error) {
    return error == EACCES || error == EPERM || error == ESTALE;
}

/// Whether the opened node is the one that has this path below /dev: users can neither put nodes there nor mount there.
bool isHostsOwnNode(int fd, const std::string& path) {
    const UniqueFd directory(::open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC));
    return directory && mountIdOf(directory.get()) == mountIdOf(fd) && pathOfDescriptor(fd) == engine::normalizePath(path);
}

}  // namespace

ContainerTree::ContainerTree(const Credentials& theCredentials, const engine::SiteConfig& theConfig, int rootFd, int devFd)
    : credentials(theCredentials),
      config(theConfig),
      root(rootFd),
      dev(devFd),
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
    if (const auto why = engine::whyEnginesOwn(path)) {
        throw Error(*why);
    }
    const bool followedNoLink = path == engine::normalizePath(destination);
    if (origin == engine::MountOrigin::site || (origin == engine::MountOrigin::workloadManager && followedNoLink)) {
        return;
    }
    const auto& rules = origin == engine::MountOrigin::cdi ? engine::UserMountRules{} : config.userMounts;
    if (const auto why = engine::whyNotMountable(rules, path)) {
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
        // Devices are what --device and siteDevices are for; without nodev a user's mount would get around them.
        const bool isCdi = mount.origin == engine::MountOrigin::cdi;
        const bool nodev = isCdi ? mount.nodev : mount.origin != engine::MountOrigin::site && !isUsualDevice(source.status);
        bindSource(source, mount.destination, {.readonly = mount.readonly, .nodev = nodev, .noexec = mount.noexec}, mount.origin);
    } catch (Error& error) {
        error.addContext(cat("Failed to bind mount ", printable(mount.source), " on container's ", printable(mount.destination),
                             mount.origin == engine::MountOrigin::cdi ? cat(" for ", printable(mount.request)) : ""));
        throw;
    }
}

/// What a CDI file says goes first; the rest is the host's.
std::optional<ContainerTree::NewNode> ContainerTree::decideNode(const engine::PlannedDevice& device, const Source& source) const {
    constexpr mode_t permissionBits = 07777;
    constexpr mode_t defaultMode = 0666;
    const auto& wanted = *device.node;
    const auto& status = source.status;
    if (wanted.type == "p") {
        return NewNode{.mode = S_IFIFO | wanted.fileMode.value_or(defaultMode),
                       .number = 0,
                       .uid = credentials.privileged() ? wanted.uid.value_or(credentials.uid()) : credentials.ownerUid(),
                       .gid = credentials.privileged() ? wanted.gid.value_or(credentials.gid()) : credentials.ownerGid()};
    }
    const bool numbered = !wanted.type.empty() && wanted.major && wanted.minor;
    if (!source.fd) {
        if (!numbered || !credentials.privileged()) {
            throw Error::fromErrno(
                cat("Failed to check if file \"", printable(device.source), "\" is a device file. Stat failed"), source.error);
        }
        return NewNode{.mode = (wanted.type == "b" ? S_IFBLK : S_IFCHR) | wanted.fileMode.value_or(defaultMode),
                       .number = makedev(static_cast<unsigned>(*wanted.major), static_cast<unsigned>(*wanted.minor)),
                       .uid = wanted.uid.value_or(0),
                       .gid = wanted.gid.value_or(0)};
    }
    if (!wanted.type.empty() && (wanted.type == "b") != S_ISBLK(status.st_mode)) {
        throw Error(cat("\"", printable(device.source), "\" is not a device of type '", wanted.type, "'"));
    }
    const NewNode node{.mode = (status.st_mode & S_IFMT) | wanted.fileMode.value_or(status.st_mode & permissionBits),
                       .number = makedev(static_cast<unsigned>(wanted.major.value_or(major(status.st_rdev))),
                                         static_cast<unsigned>(wanted.minor.value_or(minor(status.st_rdev)))),
                       .uid = wanted.uid.value_or(status.st_uid),
                       .gid = wanted.gid.value_or(status.st_gid)};
    const bool sameNumbers = node.number == status.st_rdev;
    const bool same = sameNumbers && node.mode == status.st_mode && node.uid == status.st_uid && node.gid == status.st_gid;
    if (same || (sameNumbers && !credentials.privileged())) {
        return std::nullopt;
    }
    if (!credentials.privileged()) {
        throw Error(cat("the numbers of \"", printable(device.source), "\" are not those of its CDI file"),
                    "Without privileges only nodes of the host can be provided; generate the file again");
    }
    if (!numbered && !isHostsOwnNode(source.fd.get(), device.source)) {
        throw Error(cat("\"", printable(device.source), "\" is no node of its own in /dev"),
                    "An owner or a mode of another node needs type, major and minor in the CDI file");
    }
    return node;
}

/// Made in /dev, the only place of the container where nodes work, and bound from there to where it has to be.
void ContainerTree::makeNode(const engine::PlannedDevice& device, const NewNode& node) const {
    constexpr const char* name = ".sarus-node";
    checkErrno(::mknodat(dev, name, node.mode, node.number), "Failed to create the device node");
    try {
        checkErrno(::fchownat(dev, name, node.uid, node.gid, AT_SYMLINK_NOFOLLOW), "Failed to set the owner of the device node");
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

std::optional<DeviceRule> ContainerTree::bindDevice(const engine::PlannedDevice& device) const {
    try {
        const auto source = openSource(device.source, device.origin);
        std::optional<NewNode> node;
        if (device.node) {
            node = decideNode(device, source);
        } else if (!source.fd) {
            throw Error::fromErrno(
                cat("Failed to check if file \"", printable(device.source), "\" is a device file. Stat failed"), source.error);
        }
        const auto mode = node ? node->mode : source.status.st_mode;
        if (!S_ISCHR(mode) && !S_ISBLK(mode) && !S_ISFIFO(node ? mode : 0)) {
            throw Error(cat("Source path \"", printable(device.source), "\" is not a device file"));
        }
        if (node) {
            makeNode(device, *node);
        } else {
            bindSource(source, device.destination, {}, device.origin);
        }
        if (S_ISFIFO(mode) || device.access.empty()) {
            return std::nullopt;
        }
        const auto number = node ? node->number : source.status.st_rdev;
        return DeviceRule{
            .type = S_ISCHR(mode) ? 'c' : 'b', .major = major(number), .minor = minor(number), .access = device.access};
    } catch (Error& error) {
        error.addContext(cat("Invalid device request '", printable(device.request), "'"));
        throw;
    }
}

void ContainerTree::createWorkdir(const std::string& path) const {
    if (path != "/" && path != "/dev" && engine::whyEnginesOwn(path)) {
        return;  // what is there is the runtime's, and comes after us
    }
    try {
        UniqueFd directory = credentials.asUser([&] { return tryOpenInRoot(root, path); });
        if (!directory) {
            directory = openDestination(path, EntryKind::directory);
        }
        const auto resolved = pathInside(directory.get());  // a link of the image may lead anywhere
        engine::checkWorkdir(resolved);
        if (oci::isRuntimeDevice(resolved)) {
            throw Error(cat(resolved, " is a device of the container"));
        }
    } catch (Error& error) {
        error.addContext(cat("Failed to create the working directory ", printable(path)));
        throw;
    }
}

void ContainerTree::requireDevForRuntime() const {
    const UniqueFd now(checkErrno(::openat(root, "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), "Failed to open /dev"));
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
