#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/mounts.hpp"
#include "base/unique_fd.hpp"

namespace sarus::hooks {

/// Mounts files of the host into a container's root filesystem and makes links in it.
///
/// Everything is reached by descriptor inside the root. Existing entries may lie on any mount, because a mount over them changes
/// nothing there. New entries are made only on the root filesystem itself and on a /dev of the container's own: what else is
/// mounted there belongs to the host or to the user. What the OCI runtime made in /dev (oci/runtime_devices.hpp) is neither
/// covered nor replaced, whatever link leads there: the runtime still has to open some of it, with the rights of root.
class RootEditor {
public:
    /// Where a mount may go. A destination that the container's user or image had a part in must not be one of the kernel's
    /// filesystems (proc, sysfs, cgroup), which programs with privileges trust.
    enum class Destination { any, notTheKernels };

    /// `rootFd` (O_PATH, not owned) is the root directory in this process's mount namespace.
    explicit RootEditor(int rootFd);

    /// Mounts `source`, a path of the host whose symbolic links are followed, on `destination` with all that is mounted below it.
    /// What is missing of the destination is created, owned by root. Nothing happens if the destination is the source already.
    /// Throws Error.
    void bind(const std::string& source, const std::string& destination, const BindAttributes& attributes,
              Destination kind = Destination::any) const;

    /// Makes a directory, and those on its way, unless it is there. New ones belong to root, mode 0755. Throws Error.
    void makeDirectory(const std::string& path) const;

    /// Puts a copy of the regular file `source`, a path of the host whose symbolic links are followed, at `destination`: new,
    /// owned by root, with the permissions of the source but without special bits or rights to write for others. What is there is
    /// replaced atomically, a symbolic link itself too; a directory or a mount point is not: Error. Also throws where new entries
    /// are not allowed (errno EXDEV).
    void copyFile(const std::string& source, const std::string& destination) const;

    /// Replaces a file atomically, or makes it; what is at the last component is replaced itself, also if it is a symbolic link.
    /// The directory must exist. The file is not flushed to the disk, because a container's file which a crash loses is made
    /// again at the next start. Throws Error, also where new entries are not allowed (errno EXDEV).
    void replaceFile(std::string_view path, std::string_view content, mode_t mode) const;

    enum class LinkResult { made, leadsThereAlready, noDirectory };
    /// Makes `<directory>/<name>` a symbolic link to `target` (a path inside) unless it leads to the same file already. An
    /// existing file is replaced, atomically; a directory or a mount point is not: Error. Also throws where new entries are
    /// not allowed (errno EXDEV).
    LinkResult link(const std::string& directory, const std::string& name, const std::string& target) const;

private:
    void requireOwnMount(int directory) const;
    void requireNotTheRuntimes(int file) const;
    void requireNotTheRuntimes(int directory, const std::string& name) const;
    void replaceEntry(int directory, const std::string& name, mode_t mode, const std::function<void(int)>& fill) const;
    UniqueFd openDestination(const std::string& destination, bool isDirectory) const;

    int root;
    std::uint64_t rootMount;
    std::uint64_t devMount;
};

}  // namespace sarus::hooks
