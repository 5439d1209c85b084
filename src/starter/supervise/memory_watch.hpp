#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "node/memory_cgroups.hpp"

namespace sarus::starter {

/// Why the kernel ended a process. 0: unknown.
struct MemoryEnd {
    std::string cgroup;  ///< of the limit; "": the node's memory was full
    std::uint64_t limit = 0;
    std::uint64_t peak = 0;
    std::uint64_t files = 0;  ///< memory filesystems and shared memory, now
};

/// Notices that the kernel ends processes because the job has reached its memory limit. The cgroup is that of
/// the command, or above it.
class MemoryWatch {
public:
    /// Counts from now on.
    explicit MemoryWatch(std::vector<node::MemoryCgroup> cgroups);

    /// A line for the user, or "" if memory was not the reason. `killedElsewhere`: the container's program
    /// was killed in a cgroup which has gone with its count of kills (version 1, made by runc); then it
    /// counts that the limit was reached. `written`: bytes of the container's own files, because the
    /// kernel's count of all files may be two seconds old.
    std::string explain(bool killedElsewhere, std::uint64_t written) const;

private:
    std::vector<node::MemoryCgroup> cgroups;  ///< nearest first
    std::vector<std::uint64_t> hits;          ///< of each, before
    std::uint64_t kills = 0;                  ///< of the nearest, before
};

/// The same line out of what was found.
std::string explainMemory(const MemoryEnd& end);

}  // namespace sarus::starter
