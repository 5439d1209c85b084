#pragma once

#include <functional>
#include <string>

#include "base/unique_fd.hpp"
#include "image/store/repository_paths.hpp"

namespace sarus::image {

/// Held by a pull from its download to its end, and by any import from its conversion on: of several imports
/// of one content into a repository, one does the work and the others find the result. Released if the
/// process dies. Holds nothing on filesystems that do not support locks.
class PullLock {
public:
    /// Waits without limit until no other process holds the lock of `content`, a digest, reference or other
    /// text. Calls `onWait` once if there is one. Throws Error when interrupted.
    PullLock(const RepositoryPaths& paths, const std::string& content, const std::function<void()>& onWait);
    ~PullLock();
    PullLock(const PullLock&) = delete;
    PullLock& operator=(const PullLock&) = delete;

private:
    std::string path;
    UniqueFd fd;
};

}  // namespace sarus::image
