#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/process_tree.hpp"
#include "base/subprocess.hpp"
#include "starter/image/image_mount.hpp"
#include "starter/runtime/hooks.hpp"
#include "starter/runtime/pid_file.hpp"
#include "starter/supervise/read_back.hpp"
#include "starter/supervise/terminal.hpp"

namespace sarus::starter {

/// Outcome of watching a runtime.
struct RuntimeEnd {
    ExitStatus status;
    int lastForwarded = 0;  ///< the signal forwarded last, or 0
    int startEndedBy = 0;   ///< the signal that came before the user's program ran and ended the start, or 0
    /// False if the runtime is known to have failed before it ran the user's program.
    bool programStarted = true;
    std::string difference{};  ///< difference from the plan, for which the container was ended
};

/// What to watch besides the runtime; each may be null.
struct WatchedThings {
    HookLog* hookLog = nullptr;             ///< forward its output
    const Process* container = nullptr;     ///< when it ends, kill what the runtime started beside it
    PidFile* program = nullptr;             ///< names the program; when that ends, kill the rest
    bool hooksFollow = false;               ///< the runtime then starts hooks, which are spared
    const PlannedState* planned = nullptr;  ///< compare with this when the program has started
    UserTerminal* terminal = nullptr;       ///< when it vanishes, end the container
    int jobStep = -1;                       ///< when it is readable, end the container; -1: none
    std::vector<ForeignServer> servers{};   ///< when one ends, its files are lost
};

/// Called for each child that has ended, except the runtime.
using Reaped = std::function<void(pid_t, const ExitStatus&)>;

/// Waits for the end of the runtime. Meanwhile forwards every signal that can be caught, except SIGCHLD and
/// SIGPIPE. One that asks to end before the program runs ends its hooks, too: those that ignore it are killed
/// after three seconds. SIGTSTP stops the container's processes and then this one; SIGCONT resumes them. All
/// signals must be blocked. Calls `reaped` for every other child that ends.
RuntimeEnd watchRuntime(Child runtime, const Reaped& reaped, const WatchedThings& things = {});

/// The exit status of the program: the container's own, 128 + signal if a signal ended the start, or 1 if the
/// runtime failed before it ran the user's program. Throws Error if a signal that did not pass through the
/// starter ended the runtime, or if the container was ended because it differed from the plan.
int exitStatusOf(const RuntimeEnd& end, const std::string& runtimePath);

/// Kills what the container left behind: this process is its subreaper, so all leftovers become its children.
/// Returns after at most a few seconds, even if a process cannot be killed. `spared`: children that are not
/// part of the container.
void reapLeftovers(const Reaped& reaped, const std::vector<pid_t>& spared = {});

}  // namespace sarus::starter
