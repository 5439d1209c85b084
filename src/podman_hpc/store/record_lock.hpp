#pragma once

#include <functional>
#include <string>

#include "base/unique_fd.hpp"

namespace sarus::podman_hpc {

/// Takes an exclusive fcntl(2) record lock on the whole file, as containers/storage does, and waits for it.
/// It belongs to the open file, so a program that inherits the descriptor keeps it. False if the filesystem
/// has no such locks. Throws Error, also if a signal arrives within an InterruptScope.
bool lockRecord(int fd, const std::string& path);

/// Whether another open file has locked the file, as far as the filesystem knows.
bool isRecordLocked(int fd) noexcept;

/// The lock files of a store of containers/storage, locked for writing; released by the destructor. Layers
/// come before images there and here.
class StoreWriteLock {
public:
    /// `warn` is called if the filesystem has no locks.
    StoreWriteLock(const std::string& store, const std::function<void(const std::string&)>& warn);

    /// Tells Podman's processes to read the lists again.
    void markChanged() const;

private:
    UniqueFd layers;
    UniqueFd images;
};

}  // namespace sarus::podman_hpc
