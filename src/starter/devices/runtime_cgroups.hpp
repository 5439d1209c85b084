#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::starter {

/// Mounts an empty read-only tmpfs over the nearly empty v2 tree of a hybrid layout, in this mount namespace:
/// crun before 1.9 refuses to start if it sees that tree. Throws Error.
void hideUnifiedHierarchy();

/// Unmounts the v1 hierarchy of the freezer in this mount namespace: runc would move the container to a
/// cgroup below the job's, and workload managers (Slurm's proctrack/cgroup) end only what is in the job's
/// own. Throws Error.
void hideFreezer();

/// What to tell the user if the runtime's log says that it does not run beside a v2 tree: cause and cure, a
/// line each. "" else.
std::string explainRefusedLayout(std::string_view runtimeLog, const std::string& runtimePath);

/// Name of the cgroup that runc creates below the caller's own cgroups of version 1. The user cannot choose
/// it: runc joins an existing cgroup, and kills all its processes when the container ends.
std::string runcCgroupName(std::string_view leafName);

/// The cgroupsPath that keeps runc below the caller's own cgroups: absolute on a unified layout, otherwise
/// runcCgroupName().
std::string runcCgroupsPath(std::string_view leafName);

/// The directories of the v1 cgroups that runc creates for the leaf, one in each hierarchy.
std::vector<std::string> runcCgroups(std::string_view leafName);

/// Opens, for writing, cgroup.procs of every cgroup that holds the other process (the text of its
/// /proc/<pid>/cgroup) but not this one. A process joins by writing "0" there. Skips what this process cannot
/// reach, or throws Error if it `mustJoinAll`: outside that cgroup its limits and device rules do not apply.
std::vector<UniqueFd> openCgroupsToJoin(std::string_view otherProcCgroup, bool mustJoinAll);

}  // namespace sarus::starter
