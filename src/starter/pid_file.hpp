#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "starter/runtime.hpp"

namespace sarus::starter {

/// How a runtime tells that it has started the user's program: it writes its pid file when nothing of its own can fail any more,
/// and before it waits for the program. crun writes to the file that is there; runc puts one of its own in its place. No FIFO: a
/// runtime whose starter was killed would wait for a reader.
class PidFile {
public:
    /// The program as it was started.
    struct Start {
        pid_t pid = 0;           ///< may be another's as soon as the runtime has reaped the program
        std::uint64_t time = 0;  ///< not later than the program's end, as Process::started()
    };

    /// In the bundle of a container or of a command beside one; tells the invocation where it is. Throws Error.
    explicit PidFile(RuntimeInvocation& invocation);

    /// What the runtime has told, once. To be tried from time to time.
    std::optional<Start> read();
    /// False if the runtime has told nothing.
    bool started() const;

private:
    UniqueFd written;  ///< by crun, open because the file belongs to root
    UniqueFd directory;
    bool seen = false;
};

}  // namespace sarus::starter
