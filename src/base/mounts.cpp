#include "base/mounts.hpp"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

/// Kernels before 5.2 and 5.12 answer ENOSYS, filters of container managers EPERM.
bool isMissing(int error) {
    return error == ENOSYS || error == EPERM;
}

int openTree(int fd, unsigned flags) {
    return static_cast<int>(::syscall(SYS_open_tree, fd, "", flags));
}

int moveMount(int from, int to) {
    constexpr unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    return static_cast<int>(::syscall(SYS_move_mount, from, "", to, "", flags));
}

int mountSetattr(int fd, unsigned flags, const mount_attr& attributes) {
    return static_cast<int>(::syscall(SYS_mount_setattr, fd, "", flags, &attributes, sizeof attributes));
}

/// The modern way. False if a system call is missing; then nothing has been mounted.
bool bindDetached(int source, int target, const BindAttributes& wanted) {
    const UniqueFd tree(openTree(source, AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    if (!tree) {
        if (isMissing(errno)) {
            return false;
        }
        throwErrno("Failed to clone the mount tree of the source");
    }
    mount_attr attributes{};
    attributes.attr_set = (wanted.readonly ? MOUNT_ATTR_RDONLY : 0U) | (wanted.nosuid ? MOUNT_ATTR_NOSUID : 0U) |
                          (wanted.nodev ? MOUNT_ATTR_NODEV : 0U) | (wanted.noexec ? MOUNT_ATTR_NOEXEC : 0U);
    attributes.propagation = MS_PRIVATE;
    if (mountSetattr(tree.get(), AT_EMPTY_PATH | AT_RECURSIVE, attributes) != 0) {
        if (isMissing(errno)) {
            return false;
        }
        throwErrno("Failed to set the attributes of the mount");
    }
    if (moveMount(tree.get(), target) != 0) {
        if (isMissing(errno)) {
            return false;
        }
        throwErrno("Failed to attach the mount");
    }
    return true;
}

/// The flags which a remount must repeat, because it would clear them otherwise.
unsigned long flagsOf(std::string_view options) {
    constexpr std::array<std::pair<std::string_view, unsigned long>, 7> names{{{"ro", MS_RDONLY},
                                                                               {"nosuid", MS_NOSUID},
                                                                               {"nodev", MS_NODEV},
                                                                               {"noexec", MS_NOEXEC},
                                                                               {"noatime", MS_NOATIME},
                                                                               {"nodiratime", MS_NODIRATIME},
                                                                               {"relatime", MS_RELATIME}}};
    unsigned long flags = 0;
    for (const auto& option : split(options, ',')) {
        for (const auto& [name, flag] : names) {
            if (option == name) {
                flags |= flag;
            }
        }
    }
    return flags;
}

bool isBelow(std::string_view path, std::string_view directory) {
    return path == directory || (path.starts_with(directory) && path[directory.size()] == '/');
}

constexpr unsigned long flagOf(unsigned long flag) {
    return flag;  // <sys/mount.h> has them as an enumeration
}

/// The way for older kernels. The mounts are addressed through descriptors whose mount number was compared, because their paths
/// may lead through directories that somebody can rename.
void bindAttached(int source, int target, const BindAttributes& wanted) {
    const std::string mountPoint = pathOfDescriptor(target);
    checkErrno(::mount(descriptorPath(source).c_str(), descriptorPath(target).c_str(), nullptr, MS_BIND | MS_REC, nullptr),
               "Failed to attach the mount");
    try {
        const unsigned long added = (wanted.readonly ? flagOf(MS_RDONLY) : 0) | (wanted.nosuid ? flagOf(MS_NOSUID) : 0) |
                                    (wanted.nodev ? flagOf(MS_NODEV) : 0) | (wanted.noexec ? flagOf(MS_NOEXEC) : 0);
        bool found = false;
        for (const auto& mount : readMountTable()) {
            if (!isBelow(mount.mountPoint, mountPoint)) {
                continue;
            }
            const UniqueFd fd(::open(mount.mountPoint.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
            if (!fd || mountIdOf(fd.get()) != mount.id) {
                continue;  // hidden by a later mount: cannot be reached, and becomes visible only through an unmount
            }
            found = true;
            const auto path = descriptorPath(fd.get());
            checkErrno(::mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | MS_BIND | flagsOf(mount.options) | added, nullptr),
                       "Failed to set the attributes of the mount");
            checkErrno(::mount(nullptr, path.c_str(), nullptr, MS_PRIVATE, nullptr), "Failed to make the mount private");
        }
        if (!found) {
            throw Error("Failed to find the new mount in /proc/self/mountinfo");
        }
    } catch (...) {
        ::umount2(mountPoint.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
        throw;
    }
}

}  // namespace

void mountFilesystem(const std::string& source, const std::string& target, const std::string& type, unsigned long flags,
                     const std::string& options) {
    if (::mount(source.c_str(), target.c_str(), type.c_str(), flags, options.c_str()) != 0) {
        throwErrno(cat("Failed to mount ", type, " on ", printable(target)));
    }
}

void bindMount(int source, int target, const BindAttributes& attributes) {
    if (!bindDetached(source, target, attributes)) {
        bindAttached(source, target, attributes);
    }
}

UniqueFd cloneReadOnly(int file) {
    UniqueFd tree(openTree(file, AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
    return tree && mountSetattr(tree.get(), AT_EMPTY_PATH, attributes) == 0 ? std::move(tree) : UniqueFd();
}

std::uint64_t mountIdOf(int fd) {
    const auto text = readFile(cat("/proc/self/fdinfo/", fd), 1U << 16U);
    for (const auto& line : split(text, '\n')) {
        constexpr std::string_view key = "mnt_id:";
        if (line.starts_with(key)) {
            if (const auto id = parseNumber(trim(std::string_view(line).substr(key.size())))) {
                return *id;
            }
        }
    }
    throw Error(cat("Failed to find the mount of descriptor ", fd));
}

}  // namespace sarus
