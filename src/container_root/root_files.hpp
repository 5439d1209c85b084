#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/path_in_root.hpp"
#include "base/unique_fd.hpp"

namespace sarus::container_root {

// These functions look up and open as the container's user (ContainerView). They read only regular files and
// directories outside the kernel's own filesystems (proc, sysfs and the like), where opening a file can have
// side effects and its content depends on the reader's rights.

/// Looks up a path inside the root filesystem (O_PATH); empty (and errno) if it does not exist.
UniqueFd tryFindInRoot(int root, std::string_view path, LastLink lastLink = LastLink::follow);

/// Whether both paths inside the root filesystem exist and lead to the same file.
bool leadToTheSame(int root, std::string_view one, std::string_view other);

/// Opens a directory inside the root filesystem for listing; empty if there is none that the container's user
/// may list. Throws Error if that cannot be known (EIO, EMFILE and others).
UniqueFd tryOpenDirectoryInRoot(int root, std::string_view path);

/// Opens a regular file inside the root filesystem for reading; empty (and errno) if there is none. Devices,
/// FIFOs and sockets, which an image may hold anywhere, are never opened: errno is EINVAL.
UniqueFd tryOpenFileInRoot(int root, std::string_view path);

/// Like tryOpenFileInRoot(), for the entry `name` of an open directory outside the kernel's filesystems. Does
/// not follow a symbolic link.
UniqueFd tryOpenFileAt(int directory, const char* name, struct stat& status);

/// Like tryOpenFileInRoot(), for an entry that was already looked up (an O_PATH descriptor).
UniqueFd tryOpenFound(int place, struct stat& status);

/// The content of such a file; nullopt if there is none. Throws Error if it is larger than `limit`.
std::optional<std::string> tryReadFileInRoot(int root, const std::string& path, std::size_t limit);

/// Whether the descriptor lies in one of the kernel's own filesystems: proc, sysfs, cgroup and the like.
bool isOfKernel(int fd);

}  // namespace sarus::container_root
