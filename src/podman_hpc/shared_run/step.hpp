#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

/// What a task knows about the step that it belongs to.
struct Step {
    /// The same for all tasks of the step on this node, and for no other step at the same time if a workload
    /// manager numbers its steps: "job-12.0-0-1" (job, step, restarts, node) or "pid-345".
    std::string identity;
    std::string localId{};  ///< of this task; "" if nobody tells
    unsigned tasks = 1;     ///< of the step on this node
};

/// The count of one node in a list such as "3(x2),1"; nullopt if the text is no such list.
std::optional<unsigned> countOfNode(std::string_view list, unsigned node);

/// `launcher` finds the process that started the tasks: the nearest ancestor that does not have the variable
/// with this value. So programs between, such as timeout or a shell, do not count.
Step findStep(const Settings& settings, const Surroundings& from,
              const std::function<pid_t(const std::string& variable, const std::string& value)>& launcher);

/// The nearest ancestor of this process without "NAME=VALUE" in its environment, or whose environment cannot
/// be read.
pid_t launcherOfThisProcess(const std::string& name, const std::string& value);

}  // namespace sarus::podman_hpc
