#pragma once

#include <fcntl.h>

#include <functional>
#include <string>

namespace sarus {

struct MountEntry;

enum class LockResult {
    held,
    busy,         ///< somebody else keeps it
    unsupported,  ///< the filesystem does not support locks
};

enum class LockMode { shared, exclusive };

/// Tries once to get the flock(2) of an open file.
LockResult tryLock(int fd, LockMode mode) noexcept;

/// Tries to get the exclusive one for about `milliseconds`. Polls, because a stopped process can keep a lock
/// forever.
LockResult lockWithin(int fd, int milliseconds) noexcept;

/// tryLock() through requestLock(). A file that its NFS server has forgotten is busy: look at its name again.
/// Throws Error as that does, and with `path` on other failures.
LockResult requestLock(int fd, LockMode mode, const std::string& path);

/// What `request`, a call of flock(2) or fcntl(2) for an open file of this process, answers: 0 or an errno. A
/// child makes it, because what waits for a file server ends with its process alone; the lock belongs to the
/// open file, and so to both. Warns with `path` while there is no answer. Throws Error if a signal arrives
/// within an InterruptScope. Not for record locks of processes.
int requestLock(const std::string& path, const std::function<int()>& request);

/// Whether the errno of a failed flock(2) means that the filesystem does not support locks.
bool isLockUnsupported(int errnum) noexcept;

/// Whether flock(2) in the mounted filesystem is for each node alone, so that processes of other nodes do not
/// see a lock: by its mount options (nfs(5) "nolock" and "local_lock", Lustre's "localflock"), and on BeeGFS,
/// which does not show its setting.
bool hasLocksOfNode(const MountEntry& mount);
/// The same of the filesystem of `path`; false if that cannot be found out.
bool hasLocksOfNode(const std::string& path) noexcept;

/// Whether `path` is the open file: the previous holder of the lock may have removed or replaced it.
/// `flags`: as for fstatat(2).
bool hasName(int fd, const std::string& path, int flags = AT_SYMLINK_NOFOLLOW);

}  // namespace sarus
