#include "starter/rootfs/bind_mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
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

std::string whySourceIsClosed(const engine::PlannedMount& mount, int error) {
    if (error == ELOOP) {
        return "Links such as /proc/self/fd/0 cannot be followed: name the file itself";
    }
    if (error != EACCES && error != EPERM) {
        return {};
    }
    return cat(
        engine::isLookedUpAsUser(mount.origin)
            ? "You have no access on this node"
            : "Neither you nor root has access on this node (file servers with root squash refuse root)",
        ": see the permissions along the path with: namei -l ", shellWord(mount.source));
}

/// Says in an Error which mount of the plan it is about.
template <typename Act>
auto explaining(const engine::PlannedMount& mount, const Act& act) {
    try {
        return act();
    } catch (Error& error) {
        error.addContext(failureOf(mount));
        throw;
    }
}

/// Whether the opened node is the one at this path in /dev, where users can neither create nodes nor mount.
bool isHostsOwnNode(int fd, const std::string& path) {
    const UniqueFd directory(::open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC));
    return directory && mountIdOf(directory.get()) == mountIdOf(fd) &&
           pathOfDescriptor(fd) == normalizePath(path);
}

}  // namespace

std::string failureOf(const engine::PlannedMount& mount) {
    return cat("Failed to ", mount.tmpfsSize || mount.isSquashfs ? "" : "bind ", "mount ",
               printable(mount.source), " on container's ", printable(mount.destination),
               mount.origin == engine::MountOrigin::cdi ? cat(" for ", printable(mount.request)) : "");
}

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
    if (asUserAlone && source.fd && editor.contains(source.fd.get())) {
        throw Error("the source is a part of the container itself");
    }
    return source;
}

UniqueFd ContainerTree::openDestination(const std::string& destination, EntryKind kind,
                                        engine::MountOrigin origin) const {
    auto target = editor.openPlace(destination, kind, container_root::Purpose::mount);
    const auto resolved = editor.pathInside(target.get());
    if (const auto why = engine::whyNotMountedOn(resolved, destination, origin, config.userMounts)) {
        throw Error(*why, engine::hintForRefusal(resolved));
    }
    return target;
}

std::string ContainerTree::bindSource(const Source& source, const std::string& destination,
                                      const BindAttributes& attributes, engine::MountOrigin origin) const {
    const auto kind = S_ISDIR(source.status.st_mode) ? EntryKind::directory : EntryKind::file;
    try {
        const auto target = openDestination(destination, kind, origin);
        editor.bindOpen(source.fd.get(), target.get(), attributes);
        return editor.pathInside(target.get());
    } catch (const Error& error) {
        if (error.errnum() == ENOTDIR || error.errnum() == EISDIR) {
            throw Error(
                kind == EntryKind::directory
                    ? "the source is a directory, but the destination, or a part of its path, is a file"
                    : "the source is a file, but the destination is a directory");
        }
        throw;
    }
}

std::string sizeOptions(std::optional<std::uint64_t> bytes) {
    constexpr std::uint64_t bytesOfAnEntry = 4096;  // empty files cost memory, too
    return bytes ? cat(",size=", *bytes, ",nr_inodes=", *bytes / bytesOfAnEntry) : std::string();
}

std::string ContainerTree::mountTmpfs(const engine::PlannedMount& mount) const {
    const auto target = openDestination(mount.destination, EntryKind::directory, mount.origin);
    const auto size = *mount.tmpfsSize == 0 ? sizeOptions(memoryShare) : cat(",size=", *mount.tmpfsSize);
    constexpr std::uint64_t usualMode = 0755;
    const auto options = cat("mode=", formatOctal(mount.tmpfsMode.value_or(usualMode)),
                             ",uid=", credentials.ownerUid(), ",gid=", credentials.ownerGid(), size);
    editor.mountOn(target.get(), "tmpfs", MS_NOSUID | MS_NODEV,
                   node::withMountLabel(options, config.selinuxMountLabel));
    return editor.pathInside(target.get());
}

void ContainerTree::requireOpen(const Source& source, const engine::PlannedMount& mount) {
    if (!source.fd) {
        throw Error::fromErrno("Failed to find real path for mount source", source.error,
                               whySourceIsClosed(mount, source.error));
    }
}

std::string ContainerTree::bind(const engine::PlannedMount& mount) const {
    return explaining(mount, [&]() -> std::string {
        if (mount.tmpfsSize) {
            return mountTmpfs(mount);
        }
        const auto source = openSource(mount.source, mount.origin);
        if (source.error == ENOENT && engine::mayBeMissing(mount.origin)) {
            logInfo("Rootfs", cat("There is no ", printable(mount.source), ", so it is not mounted (",
                                  printable(mount.request), ")"));
            return {};
        }
        requireOpen(source, mount);
        if (mount.mustBeDirectory.value_or(S_ISDIR(source.status.st_mode)) !=
            S_ISDIR(source.status.st_mode)) {
            throw Error(*mount.mustBeDirectory
                            ? "the source is not a directory, as x-create=dir expects"
                            : "the source is a directory, but x-create=file expects a file");
        }
        return bindSource(source, mount.destination,
                          {.readonly = mount.readonly,
                           .nodev = engine::isNodev(mount, source.status),
                           .noexec = mount.noexec},
                          mount.origin);
    });
}

UniqueFd ContainerTree::openSquashfs(const engine::PlannedMount& mount) const {
    return explaining(mount, [&] {
        const auto source = openSource(mount.source, mount.origin);
        requireOpen(source, mount);
        if (!S_ISREG(source.status.st_mode)) {
            throw Error("the source is not a regular file",
                        "Only squashfs and SIF files are mounted with type=squashfs or the flag sqsh");
        }
        const auto open = [&] {
            return UniqueFd(::open(descriptorPath(source.fd.get()).c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
        };
        auto file = engine::isLookedUpAsUser(mount.origin) ? UniqueFd() : open();
        if (!file) {
            file = credentials.asUser(open);
        }
        checkErrno(file.get(), "Failed to open mount source");
        return file;
    });
}

std::string ContainerTree::bindContent(const engine::PlannedMount& mount,
                                       const std::string& directory) const {
    return explaining(mount, [&] {
        Source content{.fd = openFile(directory, O_PATH | O_DIRECTORY)};
        checkErrno(::fstat(content.fd.get(), &content.status), "Failed to inspect the mounted content");
        return bindSource(content, mount.destination, {.readonly = true, .nodev = true}, mount.origin);
    });
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
            editor.bindNode({.mode = node.mode, .number = node.number, .uid = node.uid, .gid = node.gid},
                            openDestination(device.destination, EntryKind::file, device.origin).get());
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
        auto directory = editor.find(path);
        UniqueFd made;
        if (!directory) {
            made = editor.openPlace(path, EntryKind::directory, container_root::Purpose::entry);
            directory = editor.find(path);
        }
        const bool mayEnter = credentials.asUser([&] {
            return (directory && ::faccessat(directory.get(), "", X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0) ||
                   errno != EACCES;
        });
        // A link of the image may lead anywhere.
        engine::checkResolvedWorkdir(editor.pathInside(directory ? directory.get() : made.get()));
        return mayEnter;
    } catch (Error& error) {
        error.addContext(cat("Failed to create the working directory ", printable(path)));
        throw;
    }
}

void ContainerTree::createUsersDirectory(const std::string& path) const {
    try {
        if (!engine::isWorkdirOfRuntime(path) && !editor.find(path)) {
            editor.makeDirectoryOf(credentials.ownerUid(), credentials.ownerGid(), path, 0755);
        }
    } catch (const Error& error) {
        logInfo("Rootfs", cat("The directory ", printable(path), " is not created: ", error.what()));
    }
}

container_root::Editor editorFor(int root, const Credentials& credentials) {
    return container_root::Editor(root, {.asUser = [&](const auto& work) { credentials.asUser(work); },
                                         .uid = credentials.ownerUid(),
                                         .gid = credentials.ownerGid(),
                                         .createsAsUser = true,
                                         .mayCoverShared = true});
}

void requireDevForRuntime(int root, int dev) {
    const UniqueFd now(checkErrno(::openat(root, "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                                  "Failed to open /dev"));
    if (mountIdOf(now.get()) != mountIdOf(dev)) {
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
