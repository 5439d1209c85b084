#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus {

/// mount(2) of a new filesystem instance on `target`. Throws Error "Failed to mount <type> on <target>: ...".
void mountFilesystem(const std::string& source, const std::string& target, const std::string& type,
                     unsigned long flags, const std::string& options = {});

/// Attributes to add to those of a bind mount's source; none is removed (mount(2), "MS_BIND").
struct BindAttributes {
    bool readonly = false;
    bool nosuid = true;
    bool nodev = false;
    bool noexec = false;
};

/// Mounts what `source` refers to, with everything mounted below it, on what `target` refers to. Both are
/// O_PATH descriptors of this mount namespace. The attributes hold for the whole tree before it is visible,
/// and its propagation is private. If the kernel refuses open_tree, move_mount or mount_setattr (ENOSYS,
/// EPERM), mount(2) and one remount for each mount do the same. Throws Error.
void bindMount(int source, int target, const BindAttributes& attributes);

/// Mounts a detached tree (open_tree(2) with OPEN_TREE_CLONE), with added attributes, on what `target` refers
/// to. Its propagation is private. Throws Error, also if the kernel lacks mount_setattr or move_mount.
void attachMount(int tree, int target, const BindAttributes& attributes);

/// Adds nosuid to the mount on a directory and to all mounts below it. Does nothing if the directory is not a
/// mount point. Throws Error.
void addNosuid(const std::string& mountPoint);

/// An O_PATH descriptor of the same file through a detached read-only mount: nobody can write to the file
/// through it, not even its owner. Empty if the kernel lacks or refuses open_tree or mount_setattr.
UniqueFd cloneReadOnly(int file);

/// Sets or clears the read-only flag of only the mount whose root directory is the descriptor (O_PATH).
/// Returns false and sets errno if the descriptor is no such directory or if this process may not do it.
bool setMountReadOnly(int mountRoot, bool isReadOnly) noexcept;

/// The mount id of the descriptor (as in /proc/self/mountinfo).
std::uint64_t mountIdOf(int fd);

/// Why the kernel must not mount the image with privileges, or "". The kernel would read from the filesystem
/// of the image at times that others choose, and wait for the answer. So it refuses FUSE, whose server may be
/// anybody's process, and mounts of other mount namespaces, where a user can put a FUSE filesystem below a
/// harmless-looking one. Call it in the mount namespace in which the file was opened.
std::string whyNotByKernel(int imageFd);

}  // namespace sarus
