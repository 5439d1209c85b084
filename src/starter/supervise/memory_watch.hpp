#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus::starter {

/// What a memory cgroup tells. 0: unknown, or none.
struct MemoryUse {
    std::uint64_t kills = 0;  ///< processes that the kernel has ended for lack of memory
    std::uint64_t hits = 0;   ///< how often a limit was reached (version 1)
    std::uint64_t limit = 0;  ///< the lowest one that holds for the cgroup, in bytes
    std::uint64_t peak = 0;   ///< where this limit is, in bytes
};

/// Notices that the kernel ends processes because the job has reached its memory limit. The cgroup is the
/// caller's own.
class MemoryWatch {
public:
    /// Counts from now on. Without a memory cgroup, nothing is noticed. To be called before anything that a
    /// user has chosen is mounted in this namespace.
    static MemoryWatch begin();

    /// A line for the user, or "" if memory was not the reason. `killedElsewhere`: the container's program
    /// was killed in a cgroup which has gone with its count of kills (version 1, made by runc); then it
    /// counts that the limit was reached.
    std::string explain(bool killedElsewhere) const;

private:
    UniqueFd directory;
    MemoryUse before;
};

/// The same out of what was read before and after.
std::string explainMemory(const MemoryUse& before, const MemoryUse& after, bool killedElsewhere);

/// The number behind `key` in a text of lines "KEY NUMBER"; 0 if there is none.
std::uint64_t numberOf(std::string_view text, std::string_view key);

}  // namespace sarus::starter
