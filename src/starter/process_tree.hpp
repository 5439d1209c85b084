#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::starter {

/// One process, known by its number and the time of its start: when it has gone and its number has been given to another process,
/// this one is not taken for it. (Whoever started the container can make numbers be used again, and decide when we get to run.)
class Process {
public:
    /// A process which does not exist is like one that has ended.
    explicit Process(pid_t number);

    pid_t pid() const noexcept { return id; }
    /// In clock ticks since the start of the node (proc(5), "starttime"); 0 if it does not exist.
    std::uint64_t started() const noexcept { return startTime; }
    /// False if the process is gone or waits only for being reaped.
    bool isRunning() const;
    /// The children of all its threads; empty if it is gone.
    std::vector<Process> children() const;
    /// The text of a file in its directory of /proc; "" if it is gone or does not let us read.
    std::string read(const std::string& name) const;
    /// Nothing happens if it is gone.
    void signal(int number) const;

private:
    UniqueFd open() const;

    pid_t id;
    std::uint64_t startTime;  ///< in clock ticks; no number comes round within one
};

/// Sends SIGKILL to everything below `process`, not to itself, until nothing is left or `attempts` rounds are over. A process for
/// which `spared` is true (none: no process) is left alone with all its descendants.
void killDescendants(const Process& process, int attempts, const std::function<bool(const Process&)>& spared = {});

}  // namespace sarus::starter
