#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/subprocess.hpp"
#include "starter/hooks.hpp"
#include "starter/process_tree.hpp"

namespace sarus::starter {

/// How the watch over a runtime ended.
struct RuntimeEnd {
    ExitStatus status;
    int lastForwarded = 0;  ///< the signal that was passed on last, or 0
};

/// The number of a signal which waits to end the process, out of those that a user or a workload manager sends; 0 if none does.
/// All signals must be blocked.
int takePendingTermination();

/// Waits for the end of the runtime and meanwhile passes on every signal that can be caught but SIGCHLD and SIGPIPE. SIGTSTP
/// stops the container's processes and then this one; SIGCONT lets them go on. All signals must be blocked. `reaped` is called
/// for every other child that ends. What arrives in `hookLog` (may be null) meanwhile is passed on. If `container` (may be null)
/// is over, what the runtime started beside it is killed.
RuntimeEnd watchRuntime(Child runtime, const std::function<void(pid_t)>& reaped, HookLog* hookLog = nullptr,
                        const Process* container = nullptr);

/// The exit status of the program: the container's own. Throws Error if the runtime itself was ended by a signal that nobody sent
/// through the starter.
int exitStatusOf(const RuntimeEnd& end, const std::string& runtimePath);

/// Kills what the container left behind: this process is their subreaper, so all of them become its children. Returns after at
/// most a few seconds, also if a process cannot be killed.
void reapLeftovers(const std::function<void(pid_t)>& reaped);

}  // namespace sarus::starter
