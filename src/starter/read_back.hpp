#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "starter/process_tree.hpp"

namespace sarus::starter {

/// What must hold for the first program of a container, whichever OCI runtime has started it. The ids are this process's own.
struct PlannedState {
    bool privileged = false;  ///< no user namespace: capabilities would be those of the node
    bool seccomp = false;     ///< a filter was planned
};

/// Compares what the kernel says of the process with the plan, once it runs its program: nullopt as long as it runs the runtime's
/// own, else what differs, "" for nothing. What the program may have changed itself since it runs is not looked at: its
/// processors, a filter of its own, capabilities in a user namespace of its own. One that is gone does not differ.
/// `runtime`: the process which started it, from which it has inherited a user namespace and a filter for the standard streams.
std::optional<std::string> findDifference(const Process& process, const Process& runtime, const PlannedState& planned);

/// What /proc tells of a process: its files of these names.
struct ProcessFiles {
    std::string stat;
    std::string status;
    std::string uidMap;
};

/// The same out of these texts. Asks the kernel for nothing but the ids.
std::optional<std::string> findDifference(const ProcessFiles& process, const ProcessFiles& runtime, const PlannedState& planned);

/// The first word of a field of a process's `status`; "" if there is no such field.
std::string statusField(std::string_view status, std::string_view key);

}  // namespace sarus::starter
