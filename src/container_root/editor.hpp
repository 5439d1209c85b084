#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/unique_fd.hpp"
#include "container_root/writable_root.hpp"

namespace sarus::container_root {

/// For whom an Editor works.
struct Beneficiary {
    /// Runs `work` with the rights of the container's user alone. The default is a ContainerView.
    std::function<void(const std::function<void()>& work)> asUser{};
    /// Owner of new entries, as this user namespace shows it; -1: that of this process.
    uid_t uid = static_cast<uid_t>(-1);
    gid_t gid = static_cast<gid_t>(-1);
    /// Destinations are first created with the user's own rights, and then also on mounts from elsewhere, as
    /// far as these rights go.
    bool createsAsUser = false;
    /// May mount on the container's /dev/shm and /dev/mqueue (oci::sharedDirectories) themselves.
    bool mayCoverShared = false;
};

/// What a missing entry is created for: messages differ.
enum class Purpose { mount, entry };

/// A device node to make.
struct Node {
    mode_t mode = 0;  ///< as for mknod(2)
    dev_t number = 0;
    uid_t uid = 0;
    gid_t gid = 0;
};

/// The memory of an overlay.
struct MemoryOverlay {
    uid_t owner = 0;  ///< as this user namespace shows it
    gid_t group = 0;
    std::string_view size;           ///< as for a tmpfs: "64m"
    std::string workshop;            ///< a directory inside, made and covered for a moment
    bool isInUserNamespace = false;  ///< not the initial one
    std::string hint{};              ///< for the Error of a kernel that mounts no overlay there
};

/// Mounts files of the host into a container's root filesystem and creates entries in it: the only code that
/// does, for the engine and for hooks.
///
/// Accesses everything by descriptor inside the root, and looks everything up as the container's user.
/// Existing entries may lie on any mount, because mounting over them changes nothing there. With root's
/// rights, new entries are created only on the root filesystem itself (even if the runtime has already made
/// it read-only), and on tmpfs mounts of the container alone, such as its /dev: other mounts belong to the
/// host or the user. Never covers, replaces or creates what is the OCI runtime's or the kernel's
/// (requireMayCover()), whoever named the place and whatever link leads there: the runtime still has to open
/// some of it with root's rights, and privileged programs trust the rest.
class Editor {
public:
    /// `rootFd` (O_PATH, not owned) is the root directory in this process's mount namespace.
    explicit Editor(int rootFd, Beneficiary whom = {});

    /// Mounts `source`, a path of the host whose symbolic links are followed, with everything mounted below
    /// it on `destination`. Creates missing parts of the destination. Does nothing if the destination already
    /// is the source. `present`: what findAll() has found at the destination. Throws Error, also where
    /// requireMayCover() does.
    void bind(const std::string& source, const std::string& destination, const BindAttributes& attributes,
              UniqueFd present = {}) const;

    /// Opens a place (O_PATH) and creates missing parts of it. `present`: as for bind(). Throws Error, with
    /// ENOTDIR or EISDIR if something of another kind is there.
    UniqueFd openPlace(const std::string& path, EntryKind kind, Purpose purpose, UniqueFd present = {}) const;

    /// Mounts an open source with everything mounted below it on an open destination. Throws Error, also
    /// where requireMayCover() does.
    void bindOpen(int source, int destination, const BindAttributes& attributes) const;

    /// The same with a new instance of a filesystem. Arguments as for mountFilesystem().
    void mountOn(int destination, const std::string& type, unsigned long flags,
                 const std::string& options) const;

    /// The same with a new device node or FIFO, which is made in the container's own /dev, the only place
    /// where nodes work, and loses that name.
    void bindNode(const Node& node, int destination) const;

    /// Throws Error (errno EXDEV) if nothing may be mounted on this place (O_PATH) in the root: on the root
    /// itself, /dev, what the OCI runtime makes there (oci/runtime_devices.hpp), /proc, /sys, any filesystem
    /// of the kernel (base/kernel_filesystems.hpp), and on a directory that has one of these below it. Holds
    /// before the runtime has mounted anything, too.
    void requireMayCover(int place) const;

    /// The path inside of what is open (O_PATH), without links. Throws Error if it is not in the root.
    std::string pathInside(int place) const;

    /// Whether what is open (O_PATH) lies in the root.
    bool contains(int place) const;

    /// What lies at this path, with the rights of the container's user; empty (and errno) where nothing does.
    UniqueFd find(std::string_view path) const;
    /// The same for many, with one change of rights.
    std::vector<UniqueFd> findAll(const std::vector<std::string>& paths) const;

    /// Creates a directory and its parents unless it exists. New ones have the mode 0755. Throws Error.
    void makeDirectory(const std::string& path) const;

    /// The same for directories of this owner and mode. Creates none on mounts from elsewhere. Throws Error.
    void makeDirectoryOf(uid_t owner, gid_t group, const std::string& path, mode_t mode) const;

    /// The same for a directory of the container's user: made with the user's own rights, on any mount; or,
    /// where only root may, as makeDirectoryOf() does.
    void makeUsersDirectory(uid_t owner, gid_t group, const std::string& path, mode_t mode) const;

    /// Opens a file for reading and writing with the rights of the container's user, after creating it and
    /// its missing parents. Throws Error, also for anything but a regular file.
    UniqueFd openUsersFile(const std::string& path) const;

    /// Creates the entry `name` of an open directory, or replaces it atomically, whatever it is, with the
    /// rights of the container's user: on any mount. Throws Error.
    void replaceUsersFile(int directory, const std::string& name, std::string_view content,
                          mode_t mode) const;

    /// Mounts on a directory of the container's user an overlay that shows it and takes all changes, in
    /// memory. Throws Error, also where requireMayCover() does.
    void coverByOverlay(const std::string& path, const MemoryOverlay& overlay) const;

    /// Puts a copy of the regular file `source`, a path of the host whose symbolic links are followed, at
    /// `destination`: new, with the permissions of the source but without special bits or write access for
    /// others. Replaces an existing file or symbolic link atomically; throws Error for a directory or mount
    /// point, and where new entries are not allowed (errno EXDEV).
    void copyFile(const std::string& source, const std::string& destination) const;

    /// Makes `destination` a symbolic link with this text, which may lead nowhere. Replaces an existing file
    /// or link atomically; throws Error as copyFile() does.
    void replaceLink(const std::string& destination, const std::string& text) const;

    /// Creates a file or replaces it atomically; replaces a symbolic link itself. The directory must exist.
    /// Does not flush the file to disk: if a crash loses it, the next start creates it again. Throws Error,
    /// also where new entries are not allowed (errno EXDEV).
    void replaceFile(std::string_view path, std::string_view content, mode_t mode) const;

    /// Makes `<directory>/<name>` a symbolic link to `target` (a path inside) for each name that does not
    /// lead to the same file yet, and returns these names; none if there is no such directory. Replaces
    /// existing files atomically; throws Error for a directory or mount point, where new entries are not
    /// allowed (errno EXDEV), and if there is no target.
    std::vector<std::string> link(const std::string& directory, const std::vector<std::string>& names,
                                  const std::string& target) const;
    /// The same for a directory that findDirectory() has found and a target that requireTargets() has.
    std::vector<std::string> link(const std::string& directory, int place,
                                  const std::vector<std::string>& names, const std::string& target) const;

    /// Throws Error if one of these paths inside does not exist.
    void requireTargets(const std::vector<std::string>& targets) const;

    /// Empty if there is no such directory.
    UniqueFd findDirectory(const std::string& path) const;

    /// Throws Error if this is no directory, or one of the kernel.
    UniqueFd findUsersDirectory(const std::string& path) const;

private:
    struct KernelMount {
        std::uint64_t id = 0;
        std::string mountPoint;
    };

    bool isOnOwnMount(int directory) const;
    void requireOwnMount(int directory, Purpose purpose = Purpose::entry) const;
    const std::vector<KernelMount>& kernelsMounts() const;
    std::vector<std::string> namesOf(const std::string& path) const;
    void requireMayCreate(int directory, const std::string& name, Purpose purpose = Purpose::entry) const;
    Creation creation(uid_t owner, gid_t group, Purpose purpose, mode_t directoryMode = 0755) const;
    void replaceEntry(int directory, const std::string& name, mode_t mode,
                      const std::function<void(int)>& fill) const;
    UniqueFd findMountPoint(const std::string& path) const;
    bool putNewLink(int directory, const std::string& name, const std::string& text) const;
    void putLink(int directory, const std::string& name, const std::string& text) const;

    int root;
    Beneficiary user;
    WritableRoot writable;
    std::uint64_t rootMount;
    std::string rootPath;
    /// Of the container alone; found when first met.
    mutable std::vector<std::uint64_t> ownMounts;
    /// Read once, and again when a mount brings others along.
    mutable std::optional<std::vector<KernelMount>> kernelMounts;
    /// Where an image's links lead /dev, /proc and /sys: name and path.
    std::vector<std::pair<std::string_view, std::string>> runtimePlaces;
};

}  // namespace sarus::container_root
