#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "hooks/kit/hook_logger.hpp"

namespace sarus::hooks {

/// A line of /proc/<pid>/cgroup (cgroups(7)).
struct CgroupEntry {
    std::vector<std::string> controllers;  ///< "name=..." for a hierarchy without any; empty for version 2
    std::string path;

    bool operator==(const CgroupEntry&) const = default;
};

/// Skips malformed lines.
std::vector<CgroupEntry> parseCgroups(std::string_view cgroups);

/// The directory of a cgroup, from the text of /proc/<pid>/mountinfo. nullopt if the hierarchy is not
/// mounted. Pure. Throws Error if the cgroup lies outside the mounted part.
std::optional<std::string> findCgroup(std::string_view mountinfo, const CgroupEntry& cgroup);

/// Whether the directory is in a hierarchy of cgroups: another mount may cover it.
bool isCgroup(const std::string& directory);

struct JoinableCgroup {
    UniqueFd processes;  ///< cgroup.procs, opened for writing: a process that writes "0" there joins it
    CgroupEntry entry;
    bool limitsDevices = false;  ///< who does not join it may use devices that the container may not
};

/// Each cgroup that the process is in and this one is not. Leaves out what this process cannot open. Throws
/// Error if the process is gone.
std::vector<JoinableCgroup> openCgroupsOf(pid_t pid);

/// Only warns if the cgroup refuses this process, for example because its cpuset has no CPU. Throws Error if
/// it limits devices.
void joinCgroup(const JoinableCgroup& cgroup, const HookLogger& log);

}  // namespace sarus::hooks
