#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"

namespace sarus::image {

/// `repositoryMetadataLockTimings`.
struct LockTimings {
    std::uint64_t timeoutMs = 60000;
    std::uint64_t warningMs = 10000;
};

enum class LockMode { shared, exclusive };

/// Takes the flock(2) of an existing file which is replaced by renames: what is locked is the file that `path` names at that
/// moment. Tries every 100 ms, warns at each multiple of warningMs, throws Error "Failed to acquire lock on file ..." at the
/// timeout. The lock lasts as long as the descriptor. On filesystems without locks it warns and goes on.
UniqueFd lockFile(const std::string& path, LockMode mode, const LockTimings& timings);

/// Tries once; false if somebody else holds the lock. Throws Error if the filesystem has no locks.
bool tryLock(int fd, LockMode mode);

/// Whether the errno of a failed flock(2) says that this filesystem has no locks.
bool isLockUnsupported(int errnum) noexcept;

}  // namespace sarus::image
