#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mounts.hpp"
#include "base/unique_fd.hpp"
#include "container_root/writable_root.hpp"

namespace sarus::container_root {

/// Mounts files of the host into a container's root filesystem and creates links in it.
///
/// Accesses everything by descriptor inside the root. Existing entries may lie on any mount, because mounting
/// over them changes nothing there. New entries are created only on the root filesystem itself (even if the
/// runtime has already made it read-only), and on the container's own /dev and tmpfs mounts: other mounts
/// belong to the host or the user. Never covers, replaces or creates what is the OCI runtime's or the
/// kernel's (requireMayCover()), whoever named the place and whatever link leads there: the runtime still has
/// to open some of it with root's rights, and privileged programs trust the rest.
class Editor {
public:
    /// `rootFd` (O_PATH, not owned) is the root directory in this process's mount namespace.
    explicit Editor(int rootFd);

    /// Mounts `source`, a path of the host whose symbolic links are followed, with everything mounted below
    /// it on `destination`. Creates missing parts of the destination, owned by root. Does nothing if the
    /// destination already is the source. `present`: what findAll() has found at the destination. Throws
    /// Error, also where requireMayCover() does.
    void bind(const std::string& source, const std::string& destination, const BindAttributes& attributes,
              UniqueFd present = {}) const;

    /// Throws Error (errno EXDEV) if nothing may be mounted on this place (O_PATH) in the root: on the root
    /// itself, /dev, what the OCI runtime makes there (oci/runtime_devices.hpp), /proc, /sys, any filesystem
    /// of the kernel (base/kernel_filesystems.hpp), and on a directory that has one of these below it. Holds
    /// before the runtime has mounted anything, too.
    void requireMayCover(int place) const;

    /// What lies at these paths, with the rights of the container's user; empty where nothing does. Spares
    /// many calls of bind() a change of rights for each.
    std::vector<UniqueFd> findAll(const std::vector<std::string>& paths) const;

    /// Creates a directory and its parents unless it exists. New ones belong to root, mode 0755. Throws
    /// Error.
    void makeDirectory(const std::string& path) const;

    /// The same for a directory of the container's user, mode 0700. Throws Error.
    void makeDirectoryOf(uid_t owner, gid_t group, const std::string& path) const;

    /// Puts a copy of the regular file `source`, a path of the host whose symbolic links are followed, at
    /// `destination`: new, owned by root, with the permissions of the source but without special bits or
    /// write access for others. Replaces an existing file or symbolic link atomically; throws Error for a
    /// directory or mount point, and where new entries are not allowed (errno EXDEV).
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

private:
    bool isOnOwnMount(int directory) const;
    void requireOwnMount(int directory) const;
    std::string pathInside(int place) const;
    std::vector<std::string> namesOf(const std::string& path) const;
    void requireMayCreate(int directory, const std::string& name) const;
    void replaceEntry(int directory, const std::string& name, mode_t mode,
                      const std::function<void(int)>& fill) const;
    bool putNewLink(int directory, const std::string& name, const std::string& text) const;
    void putLink(int directory, const std::string& name, const std::string& text) const;
    UniqueFd openDestination(const std::string& destination, bool isDirectory, UniqueFd present = {}) const;

    int root;
    WritableRoot writable;
    std::uint64_t rootMount;
    std::uint64_t devMount;
    std::string rootPath;
    /// Where an image's links lead /dev, /proc and /sys: name and path.
    std::vector<std::pair<std::string_view, std::string>> runtimePlaces;
};

}  // namespace sarus::container_root
