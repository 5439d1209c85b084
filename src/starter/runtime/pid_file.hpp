#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/process_tree.hpp"
#include "base/unique_fd.hpp"
#include "starter/runtime/runtime.hpp"

namespace sarus::starter {

/// How a runtime reports that it has started the user's program: it writes its pid file once its own work can
/// no longer fail, and before it waits for the program. crun writes to the existing file; runc replaces it.
/// Not a FIFO: a runtime whose starter was killed would wait for a reader.
class PidFile {
public:
    /// The program as it was started.
    struct Start {
        pid_t pid = 0;           ///< may be reused as soon as the runtime has reaped the program
        std::uint64_t time = 0;  ///< not later than the program's end, as Process::started()
    };

    /// Places the file in the bundle of a container or of an exec command, and sets its path in the
    /// invocation. Throws Error.
    explicit PidFile(RuntimeInvocation& invocation);

    /// Returns the runtime's report once. Call it repeatedly.
    std::optional<Start> read();
    /// False if the runtime has reported nothing.
    bool started() const;
    /// The program as long as it runs; nullopt before the runtime's report. It may be another process, of
    /// whomever, that got the number within a second.
    std::optional<Process> program() const;
    /// What a forked process has to keep open for program().
    void appendDescriptors(std::vector<int>& descriptors) const;

private:
    std::optional<Start> report() const;

    UniqueFd written;  ///< written by crun, kept open because the file belongs to root
    UniqueFd directory;
    bool seen = false;
};

}  // namespace sarus::starter
