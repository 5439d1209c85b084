#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus {

// Paths inside a foreign directory tree (a container's root filesystem), resolved as if that directory were `/`: absolute
// symbolic links start again at the root, `..` stops there, and at most 40 links are followed. Nothing outside of the tree is
// ever reached, whatever the tree contains and however it changes meanwhile. The kernel does it (openat2 with RESOLVE_IN_ROOT and
// RESOLVE_NO_MAGICLINKS) or, where openat2 gives ENOSYS or EPERM, a walk component by component does. Only differences: the walk
// takes the text of a magic link (/proc/self/fd/N) as a path inside the tree, the kernel refuses it with ELOOP.

/// Whether a symbolic link in the last component is followed.
enum class LastLink { follow, keep };

/// Opens `path` below the directory `root` with O_PATH. Throws Error with the errno.
UniqueFd openInRoot(int root, std::string_view path, LastLink lastLink = LastLink::follow);

/// The same; an empty descriptor and errno on failure.
UniqueFd tryOpenInRoot(int root, std::string_view path, LastLink lastLink = LastLink::follow);

enum class EntryKind { directory, file };

/// How missing entries are created.
struct Creation {
    mode_t directoryMode = 0755;
    mode_t fileMode = 0644;
    uid_t owner = static_cast<uid_t>(-1);  ///< -1: not changed
    gid_t group = static_cast<gid_t>(-1);
    /// Asked before anything is looked up or created in the directory behind the descriptor; throws to refuse. Empty: no
    /// question.
    std::function<void(int parent)> permit{};
};

/// Opens (O_PATH) what `path` names, after creating what is missing of it: directories on the way, and in the end a directory or
/// an empty file. An entry which exists is left as it is and must be of the wanted kind (everything but a directory counts as
/// a file), otherwise the Error's errno is ENOTDIR or EISDIR.
UniqueFd createInRoot(int root, std::string_view path, EntryKind kind, const Creation& creation = {});

/// The path of an open descriptor as this process sees it (/proc/self/fd). For messages and comparisons, never to open it again.
std::string pathOfDescriptor(int fd);

/// The path "/proc/self/fd/N", for system calls that take no descriptor.
std::string descriptorPath(int fd);

}  // namespace sarus
