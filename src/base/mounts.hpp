#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus {

/// mount(2) of a new filesystem instance on `target`. Throws Error "Failed to mount <type> on <target>: ...".
void mountFilesystem(const std::string& source, const std::string& target, const std::string& type, unsigned long flags,
                     const std::string& options = {});

/// Attributes that a bind mount gets in addition to those of its source; nothing is ever taken away (mount(2), "MS_BIND").
struct BindAttributes {
    bool readonly = false;
    bool nosuid = true;
    bool nodev = false;
    bool noexec = false;
};

/// Mounts what `source` refers to, with everything that is mounted below it, on what `target` refers to; both are descriptors
/// opened with O_PATH in this mount namespace. The attributes hold for the whole tree before anybody can see it, and its
/// propagation is private. Where the kernel refuses open_tree, move_mount or mount_setattr (ENOSYS, EPERM), mount(2) and one
/// remount for each mount of the tree do the same. Throws Error.
void bindMount(int source, int target, const BindAttributes& attributes);

/// An O_PATH descriptor of the same file through a read-only mount which is attached nowhere: nobody can write to the file
/// through what becomes of it, not even its owner. Empty where the kernel has no open_tree or mount_setattr, or refuses them.
UniqueFd cloneReadOnly(int file);

/// The kernel's number of the mount in which the descriptor lies (as in /proc/self/mountinfo).
std::uint64_t mountIdOf(int fd);

}  // namespace sarus
