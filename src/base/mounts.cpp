#include "base/mounts.hpp"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
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

/// Kernels before 5.2 and 5.12 return ENOSYS, filters of container managers EPERM.
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

/// False with errno. `failed`: the action.
bool attach(int tree, int target, const BindAttributes& wanted, const char*& failed) {
    mount_attr attributes{};
    attributes.attr_set = (wanted.readonly ? MOUNT_ATTR_RDONLY : 0U) |
                          (wanted.nosuid ? MOUNT_ATTR_NOSUID : 0U) | (wanted.nodev ? MOUNT_ATTR_NODEV : 0U) |
                          (wanted.noexec ? MOUNT_ATTR_NOEXEC : 0U);
    attributes.propagation = MS_PRIVATE;
    failed = "Failed to set the attributes of the mount";
    if (mountSetattr(tree, AT_EMPTY_PATH | AT_RECURSIVE, attributes) != 0) {
        return false;
    }
    failed = "Failed to attach the mount";
    return moveMount(tree, target) == 0;
}

/// With recent system calls. False if one is missing; then nothing has been mounted.
bool bindDetached(int source, int target, const BindAttributes& wanted) {
    const UniqueFd tree(openTree(source, AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    const char* failed = "Failed to clone the mount tree of the source";
    if (!tree || !attach(tree.get(), target, wanted, failed)) {
        if (isMissing(errno)) {
            return false;
        }
        throwErrno(failed);
    }
    return true;
}

/// The flags that a remount must repeat, because it would clear them otherwise.
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
    return flag;  // <sys/mount.h> defines them as an enumeration
}

/// Adds flags to every mount at or below a path that lacks one of them, one by one. Returns the number of
/// mounts. Addresses the mounts through descriptors with a verified mount id, because their paths may lead
/// through directories that others can rename.
std::size_t addFlagsBelow(const std::string& mountPoint, unsigned long added, bool privately) {
    std::size_t found = 0;
    for (const auto& mount : readMountTable()) {
        const auto flags = flagsOf(mount.options);
        if (!isBelow(mount.mountPoint, mountPoint) || (!privately && (flags & added) == added)) {
            continue;
        }
        const UniqueFd fd(::open(mount.mountPoint.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!fd || mountIdOf(fd.get()) != mount.id) {
            continue;  // hidden by a later mount: reachable only after an unmount
        }
        ++found;
        const auto path = descriptorPath(fd.get());
        checkErrno(::mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | MS_BIND | flags | added, nullptr),
                   "Failed to set the attributes of the mount");
        if (privately) {
            checkErrno(::mount(nullptr, path.c_str(), nullptr, MS_PRIVATE, nullptr),
                       "Failed to make the mount private");
        }
    }
    return found;
}

/// For older kernels.
void bindAttached(int source, int target, const BindAttributes& wanted) {
    const std::string mountPoint = pathOfDescriptor(target);
    checkErrno(::mount(descriptorPath(source).c_str(), descriptorPath(target).c_str(), nullptr,
                       MS_BIND | MS_REC, nullptr),
               "Failed to attach the mount");
    try {
        const unsigned long added =
            (wanted.readonly ? flagOf(MS_RDONLY) : 0) | (wanted.nosuid ? flagOf(MS_NOSUID) : 0) |
            (wanted.nodev ? flagOf(MS_NODEV) : 0) | (wanted.noexec ? flagOf(MS_NOEXEC) : 0);
        if (addFlagsBelow(mountPoint, added, true) == 0) {
            throw Error("Failed to find the new mount in /proc/self/mountinfo");
        }
    } catch (...) {
        ::umount2(mountPoint.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
        throw;
    }
}

}  // namespace

void mountFilesystem(const std::string& source, const std::string& target, const std::string& type,
                     unsigned long flags, const std::string& options) {
    if (::mount(source.c_str(), target.c_str(), type.c_str(), flags, options.c_str()) != 0) {
        throwErrno(cat("Failed to mount ", type, " on ", printable(target)));
    }
}

void bindMount(int source, int target, const BindAttributes& attributes) {
    if (!bindDetached(source, target, attributes)) {
        bindAttached(source, target, attributes);
    }
}

void attachMount(int tree, int target, const BindAttributes& attributes) {
    const char* failed = nullptr;
    if (!attach(tree, target, attributes, failed)) {
        throwErrno(failed);
    }
}

void addNosuid(const std::string& mountPoint) {
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_NOSUID;
    if (::syscall(SYS_mount_setattr, AT_FDCWD, mountPoint.c_str(), AT_RECURSIVE, &attributes,
                  sizeof attributes) == 0 ||
        errno == EINVAL || errno == ENOENT) {  // no mount point
        return;
    }
    if (!isMissing(errno)) {
        throwErrno(cat("Failed to make ", printable(mountPoint), " nosuid"));
    }
    addFlagsBelow(mountPoint, MS_NOSUID, false);
}

bool setMountReadOnly(int mountRoot, bool isReadOnly) noexcept {
    mount_attr attributes{};
    (isReadOnly ? attributes.attr_set : attributes.attr_clr) = MOUNT_ATTR_RDONLY;
    if (mountSetattr(mountRoot, AT_EMPTY_PATH, attributes) == 0) {
        return true;
    }
    if (errno != ENOSYS) {
        return false;
    }
    try {  // before Linux 5.12
        const auto id = mountIdOf(mountRoot);
        for (const auto& mount : readMountTable()) {
            if (mount.id == id) {
                const auto kept = flagsOf(mount.options) & ~flagOf(MS_RDONLY);
                return ::mount(nullptr, descriptorPath(mountRoot).c_str(), nullptr,
                               MS_REMOUNT | MS_BIND | kept | (isReadOnly ? flagOf(MS_RDONLY) : 0),
                               nullptr) == 0;
            }
        }
        errno = EINVAL;
    } catch (const std::exception&) {
        errno = EIO;
    }
    return false;
}

UniqueFd cloneReadOnly(int file) {
    UniqueFd tree(openTree(file, AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
    return tree && mountSetattr(tree.get(), AT_EMPTY_PATH, attributes) == 0 ? std::move(tree) : UniqueFd();
}

std::uint64_t mountIdOf(int fd) {
    // Since Linux 5.8. Asks no file server; looking up an entry of /proc costs ten times as much.
    struct statx status {};
    if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &status) == 0 &&
        (status.stx_mask & STATX_MNT_ID) != 0) {
        return status.stx_mnt_id;
    }
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

std::string whyNotByKernel(int imageFd) {
    const auto table = cat('\n', readFile("/proc/self/mountinfo"));
    const auto start = table.find(cat('\n', mountIdOf(imageFd), ' '));
    if (start == std::string::npos) {
        return "it was opened in another mount namespace";
    }
    const auto mounts =
        parseMountTable(std::string_view(table).substr(start + 1, table.find('\n', start + 1) - start - 1));
    if (mounts.size() != 1 || mounts.front().type.starts_with("fuse")) {  // "fuse", "fuse.<name>", "fuseblk"
        return "it is on a FUSE file system";
    }
    return "";
}

}  // namespace sarus
