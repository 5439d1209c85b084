#pragma once

#include <sys/types.h>

#include <array>

#include "base/unique_fd.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// OCI runtimes examine their standard streams. With root's rights they cannot if a stream is a file on the
/// user's own FUSE mount, which only its user may look at (without allow_other). They get a pipe of the
/// user's instead, and a child with the user's rights alone copies.
class StreamRelay {
public:
    /// From now on, each such stream of this process is a pipe. No other one is touched. Throws Error.
    explicit StreamRelay(const Credentials& credentials);
    StreamRelay(const StreamRelay&) = delete;
    StreamRelay& operator=(const StreamRelay&) = delete;
    /// Gives the streams back.
    ~StreamRelay();

    /// Gives the streams back, and returns when all that has been written is in the user's files: no process
    /// of the container may live any more. Throws Error if something is lost.
    void finish();
    /// The child; -1 if there is none.
    pid_t pid() const noexcept { return id; }

private:
    void giveBack() noexcept;

    std::array<UniqueFd, 3> own;  ///< the streams that were replaced
    UniqueFd control;             ///< the child ends when it is closed
    pid_t id = -1;
};

}  // namespace sarus::starter
