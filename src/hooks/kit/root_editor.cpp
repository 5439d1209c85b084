#include "hooks/kit/root_editor.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "oci/runtime_devices.hpp"

namespace sarus::hooks {

namespace {

bool isSameFile(const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// The mount of the container's /dev, or the root's if /dev is no mount of the container's own.
std::uint64_t ownDevMount(int root, std::uint64_t rootMount) {
    const auto dev = tryOpenInRoot(root, "/dev");
    struct stat inside {};
    struct stat host {};
    const bool isOwn = dev && ::fstat(dev.get(), &inside) == 0 && ::stat("/dev", &host) == 0 && inside.st_dev != host.st_dev;
    return isOwn ? mountIdOf(dev.get()) : rootMount;
}

void requireNotTheKernels(int file) {
    struct statfs filesystem {};
    checkErrno(::fstatfs(file, &filesystem), "Failed to examine the destination's filesystem");
    for (const long kernels : {PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC}) {
        if (filesystem.f_type == kernels) {
            throw Error::fromErrno(cat(printable(pathOfDescriptor(file)), " belongs to the kernel"), EXDEV);
        }
    }
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

RootEditor::RootEditor(int rootFd) : root(rootFd), rootMount(mountIdOf(rootFd)), devMount(ownDevMount(rootFd, rootMount)) {}

void RootEditor::requireOwnMount(int directory) const {
    const auto mount = mountIdOf(directory);
    if (mount != rootMount && mount != devMount) {
        throw Error::fromErrno(
            cat(printable(pathOfDescriptor(directory)), " is mounted from elsewhere, nothing may be created there"), EXDEV);
    }
}

void RootEditor::requireNotTheRuntimes(int file) const {
    struct stat status {};
    struct statfs filesystem {};
    checkErrno(::fstat(file, &status), "Failed to examine the destination");
    checkErrno(::fstatfs(file, &filesystem), "Failed to examine the destination's filesystem");
    const auto isTheOne = [&](std::string_view name) {
        const auto device = tryOpenInRoot(root, cat("/dev/", name), LastLink::keep);
        struct stat deviceStatus {};
        return device && ::fstat(device.get(), &deviceStatus) == 0 && isSameFile(status, deviceStatus);
    };
    if (filesystem.f_type == DEVPTS_SUPER_MAGIC ||
        std::any_of(oci::runtimeDevices.begin(), oci::runtimeDevices.end(), isTheOne)) {
        throw Error::fromErrno(cat(printable(pathOfDescriptor(file)), " belongs to the OCI runtime"), EXDEV);
    }
}

void RootEditor::requireNotTheRuntimes(int directory, const std::string& name) const {
    const auto dev = tryOpenInRoot(root, "/dev");
    struct stat devStatus {};
    struct stat status {};
    if (dev && ::fstat(dev.get(), &devStatus) == 0 && ::fstat(directory, &status) == 0 && isSameFile(devStatus, status) &&
        oci::isRuntimeDevice(cat("/dev/", name))) {
        throw Error::fromErrno(cat("/dev/", printable(name), " belongs to the OCI runtime"), EXDEV);
    }
}

UniqueFd RootEditor::openDestination(const std::string& destination, bool isDirectory) const {
    if (auto present = tryOpenInRoot(root, destination)) {
        struct stat status {};
        checkErrno(::fstat(present.get(), &status), "Failed to examine the destination");
        if (S_ISDIR(status.st_mode) != isDirectory) {
            throw Error::fromErrno("the one is a directory, the other is none", isDirectory ? ENOTDIR : EISDIR);
        }
        return present;
    }
    const Creation creation{.permit = [this](int parent) { requireOwnMount(parent); }};
    return createInRoot(root, destination, isDirectory ? EntryKind::directory : EntryKind::file, creation);
}

void RootEditor::bind(const std::string& source, const std::string& destination, const BindAttributes& attributes,
                      Destination where) const {
    try {
        const auto from = openFile(source, O_PATH);
        struct stat sourceStatus {};
        checkErrno(::fstat(from.get(), &sourceStatus), "Failed to examine the source");
        const auto to = openDestination(destination, S_ISDIR(sourceStatus.st_mode));
        if (where == Destination::notTheKernels) {
            requireNotTheKernels(to.get());
        }
        struct stat targetStatus {};
        struct stat rootStatus {};
        checkErrno(::fstat(to.get(), &targetStatus), "Failed to examine the destination");
        checkErrno(::fstat(root, &rootStatus), "Failed to examine the root filesystem");
        if (isSameFile(targetStatus, rootStatus)) {
            throw Error("the root directory cannot be a mount destination");
        }
        if (!isSameFile(sourceStatus, targetStatus)) {
            requireNotTheRuntimes(to.get());
            bindMount(from.get(), to.get(), attributes);
        }
    } catch (Error& error) {
        error.addContext(cat("Failed to bind mount ", printable(source), " on the container's ", printable(destination)));
        throw;
    }
}

void RootEditor::makeDirectory(const std::string& path) const {
    try {
        openDestination(path, true);
    } catch (Error& error) {
        error.addContext(cat("Failed to make the container's directory ", printable(path)));
        throw;
    }
}

void RootEditor::copyFile(const std::string& source, const std::string& destination) const {
    try {
        const auto from = openFile(source, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        struct stat status {};
        checkErrno(::fstat(from.get(), &status), "Failed to examine the source");
        if (!S_ISREG(status.st_mode)) {
            throw Error("the source is not a regular file");
        }
        const auto slash = destination.rfind('/');
        const auto name = destination.substr(slash + 1);
        const auto parent = openDestination(slash == 0 ? "/" : destination.substr(0, slash), true);
        replaceEntry(parent.get(), name, status.st_mode & 0755U, [&](int file) { copyContent(from.get(), file); });
    } catch (Error& error) {
        error.addContext(cat("Failed to copy ", printable(source), " to the container's ", printable(destination)));
        throw;
    }
}

void RootEditor::replaceFile(std::string_view path, std::string_view content, mode_t mode) const {
    const auto slash = path.rfind('/');
    try {
        const auto parent = tryOpenInRoot(root, slash == 0 ? "/" : path.substr(0, slash));
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

void RootEditor::replaceEntry(int directory, const std::string& name, mode_t mode, const std::function<void(int)>& fill) const {
    requireOwnMount(directory);
    requireNotTheRuntimes(directory, name);
    const auto temporary = cat('.', name, '-', randomLetters());
    try {
        const auto file = openFileAt(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        fill(file.get());
        checkErrno(::fchmod(file.get(), mode), "Failed to set the permissions");
        checkErrno(::renameat(directory, temporary.c_str(), directory, name.c_str()), "Failed to replace the existing entry");
    } catch (...) {
        ::unlinkat(directory, temporary.c_str(), 0);
        throw;
    }
}

RootEditor::LinkResult RootEditor::link(const std::string& directory, const std::string& name, const std::string& target) const {
    const auto place = tryOpenInRoot(root, directory);
    struct stat directoryStatus {};
    if (!place || ::fstat(place.get(), &directoryStatus) != 0 || !S_ISDIR(directoryStatus.st_mode)) {
        return LinkResult::noDirectory;
    }
    const auto path = cat(directory, '/', name);
    try {
        const auto wanted = openInRoot(root, target);
        const auto present = tryOpenInRoot(root, path);
        struct stat wantedStatus {};
        struct stat presentStatus {};
        checkErrno(::fstat(wanted.get(), &wantedStatus), "Failed to examine the target");
        if (present && ::fstat(present.get(), &presentStatus) == 0 && isSameFile(wantedStatus, presentStatus)) {
            return LinkResult::leadsThereAlready;
        }
        requireOwnMount(place.get());
        requireNotTheRuntimes(place.get(), name);
        const auto temporary = cat('.', name, '-', randomLetters());
        checkErrno(::symlinkat(target.c_str(), place.get(), temporary.c_str()), "Failed to create the link");
        if (::renameat(place.get(), temporary.c_str(), place.get(), name.c_str()) != 0) {
            const int error = errno;
            ::unlinkat(place.get(), temporary.c_str(), 0);
            throw Error::fromErrno("Failed to replace the existing entry", error);
        }
        return LinkResult::made;
    } catch (Error& error) {
        error.addContext(cat("Failed to link the container's ", printable(path), " to ", printable(target)));
        throw;
    }
}

}  // namespace sarus::hooks
