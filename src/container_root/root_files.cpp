#include "container_root/root_files.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/kernel_filesystems.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"

namespace sarus::container_root {

namespace {

/// The directory of this thread's descriptors, which may be private to the thread: looking it up each time
/// costs more than opening a library. -1 (and errno) without /proc.
int ownDescriptors() {
    thread_local UniqueFd directory;
    thread_local pid_t owner = 0;
    if (const pid_t self = ::getpid(); owner != self) {  // the first call, and after a fork
        directory.reset(::open("/proc/thread-self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC));
        owner = directory ? self : 0;
    }
    return directory.get();
}

/// Opening a library in its directory once instead of twice halves the cost. Anybody who replaced the file
/// meanwhile could open it themselves. Does not open mounts, such as the kernel's files: empty.
UniqueFd openOnSameMount(int directory, const char* name) {
    open_how how{};
    how.flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, directory, name, &how, sizeof how)));
}

/// For the container's user: what an image or a variable names may lead nowhere, and in many ways.
bool meansNoDirectory(int error) {
    return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES ||
           error == ENAMETOOLONG || error == EINVAL;
}

}  // namespace

bool isOfKernel(int fd) {
    struct statfs filesystem {};
    // Do not trust a file whose filesystem is unknown.
    return ::fstatfs(fd, &filesystem) != 0 || isKernelFilesystem(filesystem.f_type);
}

UniqueFd tryFindInRoot(int root, std::string_view path, LastLink lastLink) {
    const ContainerView view;
    return tryOpenInRoot(root, path, lastLink);
}

bool leadToTheSame(int root, std::string_view one, std::string_view other) {
    const ContainerView view;
    const auto first = tryOpenInRoot(root, one);
    const auto second = tryOpenInRoot(root, other);
    return first && second && isSameFile(statusOf(first.get(), one), statusOf(second.get(), other));
}

UniqueFd tryOpenDirectoryInRoot(int root, std::string_view path) {
    const ContainerView view;
    const auto place = tryOpenInRoot(root, path);
    if (place && isOfKernel(place.get())) {
        errno = EINVAL;
        return {};
    }
    UniqueFd directory(place ? ::openat(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
    if (!directory && !meansNoDirectory(errno)) {
        throwErrno(cat("Failed to open the container's directory ", printable(path)));
    }
    return directory;
}

UniqueFd tryOpenFound(int place, struct stat& status) {
    if (::fstat(place, &status) != 0) {
        return {};
    }
    if (!S_ISREG(status.st_mode) || isOfKernel(place)) {
        errno = EINVAL;
        return {};
    }
    // The descriptor is a regular file, so nothing is looked up again and nothing can block.
    const ContainerView view;
    return UniqueFd(::openat(ownDescriptors(), cat(place).c_str(), O_RDONLY | O_CLOEXEC));
}

UniqueFd tryOpenFileAt(int directory, const char* name, struct stat& status) {
    const ContainerView view;
    if (::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) {
        return {};
    }
    if (auto file = openOnSameMount(directory, name); file) {
        return ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) ? std::move(file) : UniqueFd();
    }
    const UniqueFd place(::openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    return place ? tryOpenFound(place.get(), status) : UniqueFd();
}

UniqueFd tryOpenFileInRoot(int root, std::string_view path) {
    const ContainerView view;
    const auto place = tryOpenInRoot(root, path);
    struct stat status {};
    return place ? tryOpenFound(place.get(), status) : UniqueFd();
}

std::optional<std::string> tryReadFileInRoot(int root, const std::string& path, std::size_t limit) {
    const auto file = tryOpenFileInRoot(root, path);
    if (!file) {
        return std::nullopt;
    }
    return readAll(file.get(), limit, cat(printable(path), " of the container"));
}

}  // namespace sarus::container_root
