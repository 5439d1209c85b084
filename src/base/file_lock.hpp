#pragma once

#include <string>

namespace sarus {

enum class LockResult {
    held,
    busy,         ///< somebody else keeps it
    unsupported,  ///< the filesystem does not support locks
};

/// Tries to get the exclusive flock(2) of an open file for about `milliseconds`. Polls, because a stopped
/// process can keep a lock forever. Throws Error with `path` on other failures.
LockResult lockWithin(int fd, const std::string& path, int milliseconds);

/// Whether the errno of a failed flock(2) means that the filesystem does not support locks.
bool isLockUnsupported(int errnum) noexcept;

/// Whether `path` (no link) is the open file: the previous holder of the lock may have removed it.
bool hasName(int fd, const std::string& path);

}  // namespace sarus
