#pragma once

#include <functional>
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

/// What `request`, a call of flock(2) or fcntl(2) for an open file of this process, answers: 0 or an errno. A
/// child makes it, because what waits for a file server ends with its process alone; the lock belongs to the
/// open file, and so to both. Warns with `path` while there is no answer. Throws Error if a signal arrives
/// within an InterruptScope. Not for record locks of processes.
int requestLock(const std::string& path, const std::function<int()>& request);

/// Whether the errno of a failed flock(2) means that the filesystem does not support locks.
bool isLockUnsupported(int errnum) noexcept;

/// Whether `path` (no link) is the open file: the previous holder of the lock may have removed it.
bool hasName(int fd, const std::string& path);

}  // namespace sarus
