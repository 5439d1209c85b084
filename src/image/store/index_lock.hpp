#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_lock.hpp"
#include "base/unique_fd.hpp"

namespace sarus::image {

/// `repositoryMetadataLockTimings`.
struct LockTimings {
    std::uint64_t timeoutMs = 60000;
    std::uint64_t warningMs = 10000;
};

/// Takes the flock(2) of an existing file that is replaced by renames: locks the file that `path` names at
/// that moment. Tries every 100 ms, warns at each multiple of warningMs, and throws Error "Failed to acquire
/// lock on file ..." at the timeout. The lock lasts as long as the descriptor. On filesystems that do not
/// support locks it warns and continues.
UniqueFd lockFile(const std::string& path, LockMode mode, const LockTimings& timings);

/// Like lockFile(), but tries only once; nullopt if somebody else holds the lock.
std::optional<UniqueFd> tryLockFile(const std::string& path, LockMode mode);

/// Tries once; false if somebody else holds the lock. If the filesystem does not support locks, warns with
/// `path` and `consequence` and returns true.
bool tryLockOrWarn(int fd, LockMode mode, const std::string& path, std::string_view consequence);

}  // namespace sarus::image
