#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus {

// Resolves paths inside a foreign directory tree (a container's root filesystem) as if that directory were
// `/`: absolute symbolic links start again at the root, `..` stops there, and at most 40 links are followed.
// The result is never outside the tree, whatever the tree contains and however it changes meanwhile. The
// kernel resolves (openat2 with RESOLVE_IN_ROOT and RESOLVE_NO_MAGICLINKS). If openat2 fails with ENOSYS or
// EPERM, this code walks component by component. The only difference: the walk treats the text of a magic
// link (/proc/self/fd/N) as a path inside the tree, while the kernel refuses it with ELOOP.

/// Whether to follow a symbolic link in the last component.
enum class LastLink { follow, keep };

/// Opens `path` below the directory `root` with O_PATH. Throws Error with the errno.
UniqueFd openInRoot(int root, std::string_view path, LastLink lastLink = LastLink::follow);

/// The same, but returns an empty descriptor and sets errno on failure.
UniqueFd tryOpenInRoot(int root, std::string_view path, LastLink lastLink = LastLink::follow);

enum class EntryKind { directory, file };

/// How to create missing entries.
struct Creation {
    mode_t directoryMode = 0755;
    mode_t fileMode = 0644;
    uid_t owner = static_cast<uid_t>(-1);  ///< -1: not changed
    gid_t group = static_cast<gid_t>(-1);
    /// Called before `name` is looked up or created in the directory of the descriptor; throws to refuse. May
    /// be empty.
    std::function<void(int parent, const std::string& name)> permit{};
};

/// Opens `path` (O_PATH) after creating its missing parts: directories on the way, and finally a directory or
/// an empty file. An existing entry stays unchanged and must be of the wanted kind (everything but a
/// directory counts as a file); otherwise the Error's errno is ENOTDIR or EISDIR.
UniqueFd createInRoot(int root, std::string_view path, EntryKind kind, const Creation& creation = {});

/// The path of an open descriptor as this process sees it (/proc/self/fd). Use it for messages and
/// comparisons, never to open it again.
std::string pathOfDescriptor(int fd);

/// Whether a path is `directory` or below it; both without `.`, `..` and empty components.
bool isSameOrBelow(std::string_view path, std::string_view directory);

/// Whether a path is absolute, below `/`, and without `.`, `..` and control characters.
bool isPlainPath(std::string_view path);

/// The path "/proc/self/fd/N", for system calls that take no descriptor.
std::string descriptorPath(int fd);

}  // namespace sarus
