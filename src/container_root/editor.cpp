#include "container_root/editor.hpp"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

/// tryFindInRoot() for which only entries known to be absent count as missing.
UniqueFd findOrThrow(int root, const std::string& path) {
    auto place = tryFindInRoot(root, path);
    if (!place && errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
        throwErrno(cat("Failed to look up the container's ", printable(path)));
    }
    return place;
}

/// The mount of the container's /dev, or of the root if /dev is not a mount of the container's own.
std::uint64_t ownDevMount(int root, std::uint64_t rootMount) {
    const auto dev = findOrThrow(root, "/dev");
    struct stat inside {};
    struct stat host {};
    const bool isOwn =
        dev && ::fstat(dev.get(), &inside) == 0 && ::stat("/dev", &host) == 0 && inside.st_dev != host.st_dev;
    return isOwn ? mountIdOf(dev.get()) : rootMount;
}

void copyContent(int from, int to) {
    constexpr std::size_t atOnce = 1U << 30U;
    ssize_t copied = 0;
    do {
        copied = ::sendfile(to, from, nullptr, atOnce);
        if (copied < 0 && errno != EINTR) {
            throwErrno("Failed to copy the content");
        }
    } while (copied != 0);
}

}  // namespace

Editor::Editor(int rootFd)
    : root(rootFd),
      writable(rootFd),
      rootMount(mountIdOf(rootFd)),
      devMount(ownDevMount(rootFd, rootMount)),
      rootPath(pathOfDescriptor(rootFd)) {
    const ContainerView view;  // once, instead of for each
    for (const std::string_view name : {"/dev", "/proc", "/sys"}) {
        if (const auto place = findOrThrow(rootFd, std::string(name))) {
            runtimePlaces.emplace_back(name, pathInside(place.get()));
        }
    }
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

void Editor::requireMayCover(int place) const {
    const auto path = pathInside(place);
    const auto refuse = [&](std::string_view what, std::string_view whose) {
        throw Error::fromErrno(
            cat("nothing may be mounted on ", printable(path), ": ",
                what == path ? "it" : cat(printable(what), " below it"), " belongs to ", whose),
            EXDEV);
    };
    if (isOfKernel(place)) {
        refuse(path, "the kernel");
    }
    for (const auto& name : namesOf(path)) {
        const auto& directories = oci::runtimeDirectories;
        if (oci::isReserved(name) ||
            std::find(directories.begin(), directories.end(), name) != directories.end()) {
            refuse(path, "the OCI runtime");
        }
    }
    if (!S_ISDIR(statusOf(place, "the destination").st_mode)) {
        return;
    }
    for (const auto& [name, other] : runtimePlaces) {
        if (isSameOrBelow(other, path)) {
            refuse(other, "the OCI runtime");
        }
    }
    const auto above = pathOfDescriptor(place);
    for (const auto& mount : readMountTable()) {
        if (isKernelFilesystem(mount.type) && isSameOrBelow(mount.mountPoint, above)) {
            refuse(mount.mountPoint.substr(rootPath.size()), "the kernel");
        }
    }
}

bool Editor::isOnOwnMount(int directory) const {
    const auto mount = mountIdOf(directory);
    return mount == rootMount || mount == devMount || isOwnTmpfs(mount, rootMount);
}

void Editor::requireOwnMount(int directory) const {
    if (!isOnOwnMount(directory)) {
        throw Error::fromErrno(cat(printable(pathOfDescriptor(directory)),
                                   " is mounted from elsewhere, nothing may be created there"),
                               EXDEV);
    }
}

/// Runtimes take what has the name of one of their devices for the device, and open it.
void Editor::requireMayCreate(int directory, const std::string& name) const {
    for (const auto& path : namesOf(pathInside(directory))) {
        const auto entry = cat(path == "/" ? "" : path, '/', name);
        if (!oci::kernelDirectoryOf(path).empty() || oci::isRuntimeDevice(entry)) {
            throw Error::fromErrno(cat(printable(entry), " belongs to the OCI runtime"), EXDEV);
        }
    }
}

std::vector<UniqueFd> Editor::findAll(const std::vector<std::string>& paths) const {
    const ContainerView view;
    std::vector<UniqueFd> found;
    for (const auto& path : paths) {
        found.push_back(tryFindInRoot(root, path));
    }
    return found;
}

UniqueFd Editor::openDestination(const std::string& destination, bool isDirectory, UniqueFd present) const {
    if (!present) {
        present = tryFindInRoot(root, destination);
    }
    if (present) {
        if (S_ISDIR(statusOf(present.get(), "the destination").st_mode) != isDirectory) {
            throw isDirectory
                ? Error::fromErrno("the destination is a file", ENOTDIR)
                : Error::fromErrno("the destination is a directory and the source is not", EISDIR);
        }
        return present;
    }
    // With root's rights, because root owns the directories; never in mounts from elsewhere.
    const Creation creation{.permit = [this](int parent, const auto& name) {
        requireOwnMount(parent);
        requireMayCreate(parent, name);
    }};
    return createInRoot(root, destination, isDirectory ? EntryKind::directory : EntryKind::file, creation);
}

void Editor::bind(const std::string& source, const std::string& destination, const BindAttributes& attributes,
                  UniqueFd present) const {
    try {
        const auto from = openFile(source, O_PATH);
        const auto sourceStatus = statusOf(from.get(), "the source");
        const auto to = openDestination(destination, S_ISDIR(sourceStatus.st_mode), std::move(present));
        if (!isSameFile(sourceStatus, statusOf(to.get(), "the destination"))) {
            requireMayCover(to.get());
            bindMount(from.get(), to.get(), attributes);
        }
    } catch (Error& error) {
        error.addContext(
            cat("Failed to bind mount ", printable(source), " on the container's ", printable(destination)));
        throw;
    }
}

void Editor::makeDirectory(const std::string& path) const {
    try {
        openDestination(path, true);
    } catch (Error& error) {
        error.addContext(cat("Failed to make the container's directory ", printable(path)));
        throw;
    }
}

void Editor::makeDirectoryOf(uid_t owner, gid_t group, const std::string& path) const {
    const Creation creation{.directoryMode = 0700,
                            .owner = owner,
                            .group = group,
                            .permit = [this](int parent, const auto& name) {
                                requireOwnMount(parent);
                                requireMayCreate(parent, name);
                            }};
    try {
        createInRoot(root, path, EntryKind::directory, creation);
    } catch (Error& error) {
        error.addContext(cat("Failed to make the container's directory ", printable(path)));
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
        const auto parent = openDestination(slash == 0 ? "/" : destination.substr(0, slash), true);
        replaceEntry(parent.get(), name, status.st_mode & 0755U,
                     [&](int file) { copyContent(from.get(), file); });
    } catch (Error& error) {
        error.addContext(
            cat("Failed to copy ", printable(source), " to the container's ", printable(destination)));
        throw;
    }
}

void Editor::replaceFile(std::string_view path, std::string_view content, mode_t mode) const {
    const auto slash = path.rfind('/');
    try {
        const auto parent = tryFindInRoot(root, slash == 0 ? "/" : path.substr(0, slash));
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
    const auto temporary = cat('.', name, '-', randomLetters());
    try {
        const auto file = openFileAt(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        fill(file.get());
        checkErrno(::fchmod(file.get(), mode), "Failed to set the permissions");
        checkErrno(::renameat(directory, temporary.c_str(), directory, name.c_str()),
                   "Failed to replace the existing entry");
    } catch (...) {
        ::unlinkat(directory, temporary.c_str(), 0);
        throw;
    }
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
        const auto parent = openDestination(slash == 0 ? "/" : destination.substr(0, slash), true);
        requireOwnMount(parent.get());
        putLink(parent.get(), destination.substr(slash + 1), text);
    } catch (Error& error) {
        error.addContext(cat("Failed to link the container's ", printable(destination)));
        throw;
    }
}

UniqueFd Editor::findDirectory(const std::string& path) const {
    auto place = tryFindInRoot(root, path);
    struct stat status {};
    const bool isDirectory = place && ::fstat(place.get(), &status) == 0 && S_ISDIR(status.st_mode);
    return isDirectory ? std::move(place) : UniqueFd();
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
            if (!isMade && leadToTheSame(root, path, target)) {
                continue;
            }
            if (!isMade) {
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
    const ContainerView view;
    for (const auto& target : targets) {
        if (!tryFindInRoot(root, target)) {
            throwErrno(cat("Failed to link to the container's ", printable(target)));
        }
    }
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
