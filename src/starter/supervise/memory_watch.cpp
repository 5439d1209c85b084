#include "starter/supervise/memory_watch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/text.hpp"
#include "node/cgroups.hpp"

namespace sarus::starter {

namespace {

constexpr std::uint64_t noLimit = std::uint64_t{1} << 60U;  // version 1 writes an enormous number instead

std::string readIn(int directory, const char* name) {
    const UniqueFd file(::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    return file ? readAll(file.get(), 64U << 10U, name) : std::string();
}

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

/// Calls `visit` with the directory and all cgroups above it, each with the text of its file `name`.
template <typename Visit>
void forEachAbove(int directory, const char* name, Visit visit) {
    struct stat below {};
    struct stat here {};
    UniqueFd current(::openat(directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    while (current && ::fstat(current.get(), &here) == 0 &&
           here.st_ino != below.st_ino) {  // nothing is above the root of a hierarchy that was unmounted
        const auto text = readIn(current.get(), name);
        if (text.empty()) {
            return;
        }
        visit(current.get(), text);
        below = here;
        current = UniqueFd(::openat(current.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
}

bool isVersion1(int directory) {
    return ::faccessat(directory, "memory.failcnt", F_OK, 0) == 0;
}

/// Without limit and peak: memory.stat and the like may be slow to read.
MemoryUse readCounts(int directory) {
    MemoryUse use;
    use.kills = numberOf(readIn(directory, isVersion1(directory) ? "memory.oom_control" : "memory.events"),
                         "oom_kill");
    forEachAbove(directory, "memory.failcnt",
                 [&](int, const std::string& text) { use.hits += number(text); });
    return use;
}

/// The lowest limit of the cgroup and of those above, and the peak where that limit is.
void readLimit(int directory, MemoryUse& use) {
    const bool version1 = isVersion1(directory);
    std::uint64_t lowest = noLimit;
    forEachAbove(directory, version1 ? "memory.limit_in_bytes" : "memory.max",
                 [&](int cgroup, const std::string& text) {
                     const auto limit = text.starts_with("max") ? noLimit : number(text);
                     if (limit < lowest) {
                         lowest = use.limit = limit;
                         use.peak =
                             number(readIn(cgroup, version1 ? "memory.max_usage_in_bytes" : "memory.peak"));
                     }
                 });
}

}  // namespace

std::uint64_t numberOf(std::string_view text, std::string_view key) {
    for (const auto& line : split(text, '\n')) {
        if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
            return number(std::string_view(line).substr(key.size() + 1));
        }
    }
    return 0;
}

std::string explainMemory(const MemoryUse& before, const MemoryUse& after, bool killedElsewhere) {
    if (after.kills <= before.kills && !(killedElsewhere && after.hits > before.hits)) {
        return {};
    }
    return cat("Out of memory: the kernel killed a process of the container. ",
               after.limit != 0 ? cat("The job's limit is ", formatSize(after.limit))
                                : std::string("The job has no limit, but the node's memory was full"),
               after.peak != 0 ? cat(", its peak was ", formatSize(after.peak)) : std::string());
}

MemoryWatch MemoryWatch::begin() {
    MemoryWatch watch;
    const std::string_view controller =
        node::detectCgroupLayout() == node::CgroupLayout::unified ? "" : "memory";
    const auto own = node::findCgroup(readFile("/proc/self/cgroup"), controller);
    const auto path =
        own ? node::findCgroupDirectory(readMountTable(), controller, *own) : std::optional<std::string>();
    if (path) {
        watch.directory = node::openCgroup(*path);
    }
    if (watch.directory) {
        watch.before = readCounts(watch.directory.get());
    }
    return watch;
}

std::string MemoryWatch::explain(bool killedElsewhere) const {
    if (!directory) {
        return {};
    }
    auto after = readCounts(directory.get());
    readLimit(directory.get(), after);
    return explainMemory(before, after, killedElsewhere);
}

}  // namespace sarus::starter
