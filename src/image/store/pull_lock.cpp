#include "image/store/pull_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/interrupt.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"

namespace sarus::image {

PullLock::PullLock(const RepositoryPaths& paths, const std::string& content,
                   const std::function<void()>& onWait)
    : path(cat(paths.pullLocks(), '/', sha256Hex(content))) {
    constexpr timespec pause{.tv_sec = 0, .tv_nsec = 100'000'000};
    for (bool waits = false;;) {
        createDirectories(paths.pullLocks());
        fd.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
        if (!fd && errno == ENOENT) {
            continue;  // somebody prunes
        }
        if (!fd) {
            throwErrno(cat("Failed to open ", printable(path)));
        }
        if (requestLock(fd.get(), LockMode::exclusive, path) != LockResult::busy) {
            if (hasName(fd.get(), path)) {
                return;
            }
            continue;  // its holder has removed it
        }
        if (!waits) {
            waits = true;
            onWait();
        }
        ::nanosleep(&pause, nullptr);
        throwIfInterrupted();
    }
}

PullLock::~PullLock() {
    ::unlink(path.c_str());  // while it is locked: waiting processes notice
}

}  // namespace sarus::image
