#pragma once

#include <functional>

#include "starter/entry/installation.hpp"
#include "starter/runtime/runtime.hpp"
#include "starter/supervise/janitor.hpp"
#include "starter/supervise/monitor.hpp"

namespace sarus::starter {

/// A runtime with what belongs to its container or exec command.
struct Supervised {
    RuntimeInvocation& invocation;
    Remains remains{};
    WatchedThings watched{};
    std::vector<pid_t> spared{};                      ///< children that may outlive the container
    Reaped reaped = [](pid_t, const ExitStatus&) {};  ///< for children other than the runtime
    /// Called when the runtime was reaped.
    std::function<void(const RuntimeEnd&)> ended = [](const RuntimeEnd&) {};
};

/// Starts the janitor and then the runtime, drops all rights except the monitor's, and returns the program's
/// exit status once everything that belongs to the container has ended. A signal that is already pending ends
/// it without a start. Throws Error.
int supervise(Session& session, Supervised supervised);

}  // namespace sarus::starter
