#include "starter/supervise/memory_watch.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace sarus::starter {

MemoryWatch::MemoryWatch(std::vector<node::MemoryCgroup> watched) : cgroups(std::move(watched)) {
    for (const auto& cgroup : cgroups) {
        hits.push_back(cgroup.hits());
    }
    kills = cgroups.empty() ? 0 : cgroups.front().kills();
}

std::string MemoryWatch::explain(bool killedElsewhere, std::uint64_t written) const {
    if (cgroups.empty()) {
        return {};
    }
    const node::MemoryCgroup* reached = nullptr;
    const node::MemoryCgroup* lowest = nullptr;
    std::uint64_t limit = 0;
    for (std::size_t i = 0; i < cgroups.size(); ++i) {
        const auto own = cgroups[i].hardLimit();
        if (own && reached == nullptr && cgroups[i].hits() > hits[i]) {
            reached = &cgroups[i];
        }
        if (own && (lowest == nullptr || *own < limit)) {
            lowest = &cgroups[i];
            limit = *own;
        }
    }
    if (cgroups.front().kills() <= kills && !(killedElsewhere && reached != nullptr)) {
        return {};
    }
    const auto* cause = reached != nullptr ? reached : lowest;
    return cause == nullptr ? explainMemory({})
                            : explainMemory({.cgroup = cause->path(),
                                             .limit = cause->hardLimit().value_or(0),
                                             .peak = cause->peak(),
                                             .files = std::max(cause->files(), written)});
}

std::string explainMemory(const MemoryEnd& end) {
    constexpr std::uint64_t many = 4;  // a quarter of the limit
    const std::string what = "Out of memory: the kernel killed a process of the container. ";
    if (end.cgroup.empty()) {
        return cat(what, "The job has no limit, but the node's memory was full");
    }
    return cat(what, "The limit is ", formatSize(end.limit), " (", end.limit, " bytes in ",
               printable(end.cgroup), ")", end.peak != 0 ? cat(", the peak was ", formatSize(end.peak)) : "",
               end.files != 0 ? cat(", files in memory take ", formatSize(end.files)) : "",
               end.files > end.limit / many ? ": write large files to a mounted directory" : "");
}

}  // namespace sarus::starter
