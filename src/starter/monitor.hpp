#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.hpp"
#include "starter/hooks.hpp"
#include "starter/pid_file.hpp"
#include "starter/process_tree.hpp"
#include "starter/read_back.hpp"

namespace sarus::starter {

/// How the watch over a runtime ended.
struct RuntimeEnd {
    ExitStatus status;
    int lastForwarded = 0;       ///< the signal that was passed on last, or 0
    bool programStarted = true;  ///< false if the runtime is known to have failed before it ran the user's program
    std::string difference{};    ///< from what was planned; the container was ended because of it
};

/// What is watched besides the runtime; each may be null.
struct WatchedThings {
    HookLog* hookLog = nullptr;          ///< what arrives there is passed on
    const Process* container = nullptr;  ///< when it is over, what the runtime started beside it is killed
    PidFile* program = nullptr;          ///< names the program with whose end all ends that the runtime started
    std::vector<pid_t> helpers{};        ///< of this process; if there are any, all its other children end with the program, too
    bool hooksFollow = false;            ///< the runtime starts hooks after that end, which are spared
    const PlannedState* planned = nullptr;  ///< what is read back when the program has started
};

/// The number of a signal which waits to end the process, out of those that a user or a workload manager sends; 0 if none does.
/// All signals must be blocked.
int takePendingTermination();

/// Waits for the end of the runtime and meanwhile passes on every signal that can be caught but SIGCHLD and SIGPIPE. SIGTSTP
/// stops the container's processes and then this one; SIGCONT lets them go on. All signals must be blocked. `reaped` is called
/// for every other child that ends.
RuntimeEnd watchRuntime(Child runtime, const std::function<void(pid_t)>& reaped, const WatchedThings& things = {});

/// The exit status of the program: the container's own, or 1 if the runtime failed before it ran the user's program. Throws Error
/// if the runtime itself was ended by a signal that nobody sent through the starter, or if the container was ended because it
/// was not as planned.
int exitStatusOf(const RuntimeEnd& end, const std::string& runtimePath);

/// Kills what the container left behind: this process is their subreaper, so all of them become its children. Returns after at
/// most a few seconds, also if a process cannot be killed. `spared`: a child which is no part of the container.
void reapLeftovers(const std::function<void(pid_t)>& reaped, pid_t spared = -1);

}  // namespace sarus::starter
