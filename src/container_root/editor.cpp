#include "container_root/editor.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/kernel_filesystems.hpp"
#include "base/mount_table.hpp"
#include "base/path_in_root.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/own_tmpfs.hpp"
#include "container_root/root_files.hpp"
#include "oci/runtime/runtime_devices.hpp"

namespace sarus::container_root {

namespace {

/// Replaces an entry atomically.
void putFile(int directory, const std::string& name, const std::function<void(int)>& fill) {
    const auto temporary = cat('.', name, '-', randomLetters());
    try {
        const auto file = openFileAt(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        fill(file.get());
        checkErrno(::renameat(directory, temporary.c_str(), directory, name.c_str()),
                   "Failed to replace the existing entry");
    } catch (...) {
        ::unlinkat(directory, temporary.c_str(), 0);
        throw;
    }
}

}  // namespace

Editor::Editor(int rootFd, Beneficiary whom)
    : root(rootFd),
      user(std::move(whom)),
      writable(rootFd),
      rootMount(mountIdOf(rootFd)),
      rootPath(pathOfDescriptor(rootFd)),
      ownMounts{rootMount} {
    if (!user.asUser) {
        user.asUser = [](const auto& work) {
            const ContainerView view;
            work();
        };
    }
    constexpr std::array<std::string_view, 3> names{"/dev", "/proc", "/sys"};
    user.asUser([&] {  // once, instead of for each
        for (const auto name : names) {
            if (const auto place = tryOpenInRoot(root, name)) {
                runtimePlaces.emplace_back(name, pathInside(place.get()));
            } else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
                throwErrno(cat("Failed to look up the container's ", name));
            }
        }
    });
}

bool Editor::contains(int place) const {
    return isSameOrBelow(pathOfDescriptor(place), rootPath);
}

/// Without links.
std::string Editor::pathInside(int place) const {
    auto path = pathOfDescriptor(place);
    if (!isSameOrBelow(path, rootPath)) {
        throw Error::fromErrno(cat(printable(path), " is outside of the root filesystem"), EXDEV);
    }
    path.erase(0, rootPath == "/" ? 0 : rootPath.size());
    return path.empty() ? "/" : path;
}

/// The path, and what the OCI runtime would call it.
std::vector<std::string> Editor::namesOf(const std::string& path) const {
    std::vector<std::string> names{path};
    for (const auto& [name, place] : runtimePlaces) {
        if (place != name && isSameOrBelow(path, place)) {
            names.push_back(cat(name, std::string_view(path).substr(place == "/" ? 0 : place.size())));
        }
    }
    return names;
}

/// Those in the root and those of the host, which a mount may bring along.
const std::vector<Editor::KernelMount>& Editor::kernelsMounts() const {
    if (!kernelMounts) {
        kernelMounts.emplace();
        for (auto& mount : readMountTable()) {
            if (isKernelFilesystem(mount.type)) {
                kernelMounts->push_back({mount.id, std::move(mount.mountPoint)});
            }
        }
    }
    return *kernelMounts;
}

void Editor::requireMayCover(int place) const {
    const auto path = pathInside(place);
    const auto refuse = [&](const std::string& why) { throw Error(why).setErrnum(EXDEV); };
    const auto refuseBelow = [&](std::string_view what, std::string_view whose) {
        refuse(cat("nothing may be mounted on ", printable(path), ": ", printable(what),
                   " below it belongs to ", whose));
    };
    bool isShared = false;
    for (const auto& name : namesOf(path)) {
        const auto& shared = oci::sharedDirectories;
        if (const auto why = oci::whyReserved(name)) {
            refuse(*why);
        }
        if (std::find(shared.begin(), shared.end(), name) != shared.end()) {
            isShared = true;
            if (!user.mayCoverShared) {
                refuse(cat("the OCI runtime mounts on ", name));
            }
        }
    }
    if (isShared) {
        return;  // nobody relies on finding the kernel there
    }
    // By the table: to ask the file system could mean to ask a file server.
    const auto id = mountIdOf(place);
    const auto& kernels = kernelsMounts();
    if (std::any_of(kernels.begin(), kernels.end(), [&](const auto& mount) { return mount.id == id; })) {
        refuse(cat(printable(path), " belongs to the kernel"));
    }
    if (!S_ISDIR(statusOf(place, "the destination").st_mode)) {
        return;
    }
    for (const auto& [name, other] : runtimePlaces) {
        if (isSameOrBelow(other, path)) {
            refuseBelow(other, "the OCI runtime");
        }
    }
    const auto above = pathOfDescriptor(place);
    for (const auto& mount : kernels) {
        if (isSameOrBelow(mount.mountPoint, above)) {
            refuseBelow(mount.mountPoint.substr(rootPath.size()), "the kernel");
        }
    }
}

bool Editor::isOnOwnMount(int directory) const {
    const auto mount = mountIdOf(directory);
    if (std::find(ownMounts.begin(), ownMounts.end(), mount) != ownMounts.end()) {
        return true;
    }
    const bool isOwn = isOwnTmpfs(mount, rootMount);
    if (isOwn) {
        ownMounts.push_back(mount);
    }
    return isOwn;
}

void Editor::requireOwnMount(int directory, Purpose purpose) const {
    if (!isOnOwnMount(directory)) {
        const auto path = printable(pathOfDescriptor(directory));
        throw Error(purpose == Purpose::mount
                        ? cat("Mount destination (", path, ") is not on a device allowed for mounts")
                        : cat(path, " is mounted from elsewhere, nothing may be created there"))
            .setErrnum(EXDEV);
    }
}

/// Runtimes take what has the name of one of their devices for the device, and open it.
void Editor::requireMayCreate(int directory, const std::string& name, Purpose purpose) const {
    for (const auto& path : namesOf(pathInside(directory))) {
        const auto entry = cat(path == "/" ? "" : path, '/', name);
        if (!oci::kernelDirectoryOf(path).empty() || oci::isRuntimeDevice(entry)) {
            throw Error(purpose == Purpose::mount
                            ? *oci::whyReserved(entry)
                            : cat(printable(entry), " belongs to ",
                                  oci::isRuntimeDevice(entry) ? "the OCI runtime" : "the kernel"))
                .setErrnum(EXDEV);
        }
    }
}

UniqueFd Editor::find(std::string_view path) const {
    UniqueFd found;
    int error = 0;
    user.asUser([&] {
        found = tryOpenInRoot(root, path);
        error = errno;
    });
    errno = error;
    return found;
}

std::vector<UniqueFd> Editor::findAll(const std::vector<std::string>& paths) const {
    std::vector<UniqueFd> found;
    user.asUser([&] {
        for (const auto& path : paths) {
            found.push_back(tryOpenInRoot(root, path));
        }
    });
    return found;
}

/// With root's rights, because root owns the directories; never on mounts from elsewhere.
Creation Editor::creation(uid_t owner, gid_t group, Purpose purpose, mode_t directoryMode) const {
    return {.directoryMode = directoryMode,
            .owner = owner,
            .group = group,
            .permit = [this, purpose](int parent, const auto& name) {
                requireOwnMount(parent, purpose);
                requireMayCreate(parent, name, purpose);
            }};
}

UniqueFd Editor::openPlace(const std::string& path, EntryKind kind, Purpose purpose, UniqueFd present) const {
    int error = ENOENT;
    if (!present && user.createsAsUser) {
        try {
            const Creation asUser{
                .permit = [&](int parent, const auto& name) { requireMayCreate(parent, name, purpose); }};
            user.asUser([&] { present = createInRoot(root, path, kind, asUser); });
            return present;
        } catch (const Error& failure) {
            // A network file system says ESTALE where root, but not the user, has no rights.
            error = failure.errnum();
            if (error != EACCES && error != EPERM && error != ESTALE) {
                throw;
            }
        }
    } else if (!present) {
        present = find(path);
    }
    const auto isDirectory = kind == EntryKind::directory;
    if (present) {
        if (S_ISDIR(statusOf(present.get(), "the destination").st_mode) != isDirectory) {
            throw isDirectory
                ? Error::fromErrno("the destination is a file", ENOTDIR)
                : Error::fromErrno("the destination is a directory and the source is not", EISDIR);
        }
        return present;
    }
    return createInRoot(root, path, kind, creation(user.uid, user.gid, purpose));
}

void Editor::bindOpen(int source, int destination, const BindAttributes& attributes) const {
    requireMayCover(destination);
    bindMount(source, destination, attributes);
    const auto& kernels = kernelsMounts();
    const auto from = pathOfDescriptor(source);
    const auto id = mountIdOf(source);
    if (std::any_of(kernels.begin(), kernels.end(), [&](const auto& mount) {
            return mount.id == id || isSameOrBelow(mount.mountPoint, from);
        })) {
        kernelMounts.reset();
    }
}

void Editor::mountOn(int destination, const std::string& type, unsigned long flags,
                     const std::string& options) const {
    requireMayCover(destination);
    mountFilesystem(type, descriptorPath(destination), type, flags, options);
}

void Editor::bindNode(const Node& node, int destination) const {
    constexpr const char* name = ".sarus-node";
    const auto dev = find("/dev");
    checkErrno(dev.get(), "Failed to open the container's /dev");
    requireOwnMount(dev.get());
    checkErrno(::mknodat(dev.get(), name, node.mode, node.number), "Failed to create the device node");
    try {
        checkErrno(::fchownat(dev.get(), name, node.uid, node.gid, AT_SYMLINK_NOFOLLOW),
                   "Failed to set the owner of the device node");
        checkErrno(::fchmodat(dev.get(), name, node.mode & ~static_cast<mode_t>(S_IFMT), 0),
                   "Failed to set the mode of the device node");
        bindOpen(openFileAt(dev.get(), name, O_PATH | O_NOFOLLOW).get(), destination, {});
    } catch (...) {
        ::unlinkat(dev.get(), name, 0);
        throw;
    }
    checkErrno(::unlinkat(dev.get(), name, 0), "Failed to remove the device node's first name");
}

void Editor::bind(const std::string& source, const std::string& destination, const BindAttributes& attributes,
                  UniqueFd present) const {
    try {
        const auto from = openFile(source, O_PATH);
        const auto sourceStatus = statusOf(from.get(), "the source");
        const auto kind = S_ISDIR(sourceStatus.st_mode) ? EntryKind::directory : EntryKind::file;
        const auto to = openPlace(destination, kind, Purpose::mount, std::move(present));
        if (!isSameFile(sourceStatus, statusOf(to.get(), "the destination"))) {
            bindOpen(from.get(), to.get(), attributes);
        }
    } catch (Error& error) {
        error.addContext(
            cat("Failed to bind mount ", printable(source), " on the container's ", printable(destination)));
        throw;
    }
}

void Editor::makeDirectory(const std::string& path) const {
    try {
        openPlace(path, EntryKind::directory, Purpose::entry);
    } catch (Error& error) {
        error.addContext(cat("Failed to make the container's directory ", printable(path)));
        throw;
    }
}

void Editor::makeDirectoryOf(uid_t owner, gid_t group, const std::string& path, mode_t mode) const {
    try {
        createInRoot(root, path, EntryKind::directory, creation(owner, group, Purpose::entry, mode));
    } catch (Error& error) {
        error.addContext(cat("Failed to make the container's directory ", printable(path)));
        throw;
    }
}

void Editor::makeUsersDirectory(uid_t owner, gid_t group, const std::string& path, mode_t mode) const {
    try {
        user.asUser([&] {
            createInRoot(root, path, EntryKind::directory,
                         {.directoryMode = mode,
                          .permit = [&](int parent, const auto& name) { requireMayCreate(parent, name); }});
        });
        return;
    } catch (const Error& error) {
        if (error.errnum() != EACCES && error.errnum() != EPERM && error.errnum() != EROFS) {
            throw;
        }
    }
    makeDirectoryOf(owner, group, path, mode);
}

UniqueFd Editor::openUsersFile(const std::string& path) const {
    UniqueFd file;
    user.asUser([&] {
        const auto place =
            createInRoot(root, path, EntryKind::file,
                         {.permit = [&](int parent, const auto& name) { requireMayCreate(parent, name); }});
        if (!S_ISREG(statusOf(place.get(), printable(path)).st_mode)) {
            throw Error(cat("The container's ", printable(path), " is not a regular file"));
        }
        file = openFile(descriptorPath(place.get()), O_RDWR | O_NONBLOCK | O_NOCTTY);
    });
    return file;
}

void Editor::replaceUsersFile(int directory, const std::string& name, std::string_view content,
                              mode_t mode) const {
    try {
        requireMayCreate(directory, name);
        user.asUser([&] {
            putFile(directory, name, [&](int file) {
                writeAll(file, content, printable(name));
                checkErrno(::fchmod(file, mode), "Failed to set the permissions");
            });
        });
    } catch (Error& error) {
        error.addContext(cat("Failed to write ", printable(pathOfDescriptor(directory)), '/', name));
        throw;
    }
}

void Editor::copyFile(const std::string& source, const std::string& destination) const {
    try {
        const auto from = openFile(source, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        const auto status = statusOf(from.get(), "the source");
        if (!S_ISREG(status.st_mode)) {
            throw Error("the source is not a regular file");
        }
        const auto slash = destination.rfind('/');
        const auto name = destination.substr(slash + 1);
        const auto parent =
            openPlace(slash == 0 ? "/" : destination.substr(0, slash), EntryKind::directory, Purpose::entry);
        replaceEntry(parent.get(), name, status.st_mode & 0755U,
                     [&](int file) { copyContent(from.get(), file, printable(name)); });
    } catch (Error& error) {
        error.addContext(
            cat("Failed to copy ", printable(source), " to the container's ", printable(destination)));
        throw;
    }
}

void Editor::replaceFile(std::string_view path, std::string_view content, mode_t mode) const {
    const auto slash = path.rfind('/');
    try {
        const auto parent = find(slash == 0 ? "/" : path.substr(0, slash));
        if (!parent) {
            throwErrno("Failed to open its directory");
        }
        replaceEntry(parent.get(), std::string(path.substr(slash + 1)), mode,
                     [&](int file) { writeAll(file, content, printable(path)); });
    } catch (Error& error) {
        error.addContext(cat("Failed to replace the container's ", printable(path)));
        throw;
    }
}

void Editor::replaceEntry(int directory, const std::string& name, mode_t mode,
                          const std::function<void(int)>& fill) const {
    requireOwnMount(directory);
    requireMayCreate(directory, name);
    putFile(directory, name, [&](int file) {
        fill(file);
        if (user.uid != static_cast<uid_t>(-1)) {
            checkErrno(::fchown(file, user.uid, user.gid), "Failed to set the owner");
        }
        checkErrno(::fchmod(file, mode), "Failed to set the permissions");
    });
}

bool Editor::putNewLink(int directory, const std::string& name, const std::string& text) const {
    requireMayCreate(directory, name);
    if (::symlinkat(text.c_str(), directory, name.c_str()) == 0) {
        return true;
    }
    if (errno != EEXIST) {
        throwErrno("Failed to create the link");
    }
    return false;
}

void Editor::putLink(int directory, const std::string& name, const std::string& text) const {
    if (putNewLink(directory, name, text)) {
        return;
    }
    const auto temporary = cat('.', name, '-', randomLetters());
    checkErrno(::symlinkat(text.c_str(), directory, temporary.c_str()), "Failed to create the link");
    if (::renameat(directory, temporary.c_str(), directory, name.c_str()) != 0) {
        const int error = errno;
        ::unlinkat(directory, temporary.c_str(), 0);
        throw Error::fromErrno("Failed to replace the existing entry", error);
    }
}

void Editor::replaceLink(const std::string& destination, const std::string& text) const {
    const auto slash = destination.rfind('/');
    try {
        const auto parent =
            openPlace(slash == 0 ? "/" : destination.substr(0, slash), EntryKind::directory, Purpose::entry);
        requireOwnMount(parent.get());
        putLink(parent.get(), destination.substr(slash + 1), text);
    } catch (Error& error) {
        error.addContext(cat("Failed to link the container's ", printable(destination)));
        throw;
    }
}

UniqueFd Editor::findDirectory(const std::string& path) const {
    auto place = find(path);
    struct stat status {};
    const bool isDirectory = place && ::fstat(place.get(), &status) == 0 && S_ISDIR(status.st_mode);
    return isDirectory ? std::move(place) : UniqueFd();
}

UniqueFd Editor::findUsersDirectory(const std::string& path) const {
    auto place = find(path);
    checkErrno(place.get(), cat("Failed to open the container's ", printable(path)));
    if (!S_ISDIR(statusOf(place.get(), path).st_mode) || isOfKernel(place.get())) {
        throw Error(cat("The container's ", printable(path), " is not a directory of the user"));
    }
    return place;
}

std::vector<std::string> Editor::link(const std::string& directory, int place,
                                      const std::vector<std::string>& names,
                                      const std::string& target) const {
    const bool isOwn = !names.empty() && isOnOwnMount(place);
    std::vector<std::string> made;
    for (const auto& name : names) {
        const auto path = cat(directory, '/', name);
        try {
            // Most names are new: no look-up is needed to learn that.
            const bool isMade = isOwn && putNewLink(place, name, target);
            if (!isMade) {
                const auto found = findAll({path, target});
                if (found[0] && found[1] &&
                    isSameFile(statusOf(found[0].get(), path), statusOf(found[1].get(), target))) {
                    continue;
                }
                requireOwnMount(place);
                putLink(place, name, target);
            }
            made.push_back(name);
        } catch (Error& error) {
            error.addContext(
                cat("Failed to link the container's ", printable(path), " to ", printable(target)));
            throw;
        }
    }
    return made;
}

void Editor::requireTargets(const std::vector<std::string>& targets) const {
    user.asUser([&] {
        for (const auto& target : targets) {
            if (!tryOpenInRoot(root, target)) {
                throwErrno(cat("Failed to link to the container's ", printable(target)));
            }
        }
    });
}

std::vector<std::string> Editor::link(const std::string& directory, const std::vector<std::string>& names,
                                      const std::string& target) const {
    const auto place = findDirectory(directory);
    if (!place) {
        return {};
    }
    requireTargets({target});
    return link(directory, place.get(), names, target);
}

}  // namespace sarus::container_root
