#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/process_tree.hpp"

namespace sarus::starter {

// Why check a trusted runtime: an image or a user can mislead it, as with the working directory of
// CVE-2024-21626, and SECURITY.md covers that. A site with an outdated runtime gets a warning.

/// What must hold for the first program of a container, whichever OCI runtime started it. The ids are those
/// of this process.
struct PlannedState {
    bool privileged = false;  ///< no user namespace: capabilities would be the node's
    bool seccomp = false;     ///< a filter was planned
    bool isRoot = false;      ///< of a user namespace: it may take each of its ids
};

/// Compares the kernel's data about the process with the plan. nullopt while the process still runs the
/// runtime's code; otherwise the difference, "" for none. Ignores what the program may have changed itself:
/// its processors, filters of its own, capabilities in a user namespace of its own, its working directory
/// within the container. A process that is gone does not differ. `runtime`: the process that started it and
/// passed on a user namespace and a filter for the standard streams.
std::optional<std::string> findDifference(const Process& process, const Process& runtime,
                                          const PlannedState& planned);

/// The files of a process in /proc with these names, and the target of "cwd".
struct ProcessFiles {
    std::string stat;
    std::string status;
    std::string uidMap;
    bool outside = false;  ///< its mount namespace lacks the mount of its working directory
};

/// Compares these texts. Asks the kernel only for the ids.
std::optional<std::string> findDifference(const ProcessFiles& process, const ProcessFiles& runtime,
                                          const PlannedState& planned);

/// The words of a field of a process's `status` (proc(5)), with a blank between them; "" if there is no such
/// field.
std::string statusFields(std::string_view status, std::string_view key);
/// The first word of a field of a process's `status`; "" if there is no such field.
std::string statusField(std::string_view status, std::string_view key);

}  // namespace sarus::starter
