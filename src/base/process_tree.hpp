#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus {

/// One process, identified by its id and start time, so that a later process with the same id is not mistaken
/// for it. (The user who started the container can cause ids to be reused and delay us.)
class Process {
public:
    /// A process that does not exist counts as ended.
    explicit Process(pid_t number);

    pid_t pid() const noexcept { return id; }
    /// In clock ticks since the node's boot (proc(5), "starttime"); 0 if the process does not exist.
    std::uint64_t started() const noexcept { return startTime; }
    /// One letter (proc(5), "state"); '\0' if the process is gone.
    char state() const;
    /// False if the process is gone or is a zombie.
    bool isRunning() const;
    /// Whether none of its threads runs any more, or will before SIGCONT: each has stopped or ended, or is in
    /// a call that no signal interrupts. A signal that stops it was sent before.
    bool hasStopped() const;
    /// 0 if the process is gone.
    pid_t parent() const;
    /// 0 if the process is gone.
    pid_t group() const;
    /// The children of all its threads; empty if the process is gone.
    std::vector<Process> children() const;
    /// The text of a file in its directory of /proc; "" if the process is gone or access is denied.
    std::string read(const std::string& name) const;
    /// Does nothing if the process is gone.
    void signal(int number) const;

private:
    UniqueFd open() const;

    pid_t id;
    std::uint64_t startTime;  ///< in clock ticks; pids do not wrap around within one
};

/// Of this node since it was booted: process ids and start times mean something only with it (random(4)).
/// Throws Error.
std::string bootId();

/// Whether the process has executed a program since it was forked: its flags (proc(5), "flags") lack the
/// kernel's PF_FORKNOEXEC. `stat`: the text of its /proc/PID/stat; false for anything else.
bool hasExecutedProgram(std::string_view stat);

/// All descendants of `process`, without those for which `spared` is true and their descendants. An empty
/// `spared` spares none.
std::vector<Process> descendantsOf(const Process& process,
                                   const std::function<bool(const Process&)>& spared = {});

/// Sends SIGKILL to all descendants of `process`, but not to itself, until none is left or `attempts` rounds
/// are over. `spared`: as for descendantsOf().
void killDescendants(const Process& process, int attempts,
                     const std::function<bool(const Process&)>& spared = {});

}  // namespace sarus
