#include "node/memory_cgroups.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "node/cgroups.hpp"

namespace sarus::node {

namespace {

constexpr std::uint64_t noLimit = std::uint64_t{1} << 60U;  // version 1 writes an enormous number instead

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

std::optional<std::uint64_t> limitOf(std::string_view text) {
    const auto value = text.empty() || text.starts_with("max") ? noLimit : number(text);
    return value < noLimit ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> lower(std::optional<std::uint64_t> one, std::optional<std::uint64_t> other) {
    return one && other ? std::min(one, other) : one ? one : other;
}

bool hasFile(int directory, const char* name) {
    return ::faccessat(directory, name, F_OK, 0) == 0;
}

/// Where a process is in the hierarchy that has the memory controller.
std::optional<std::string> directoryOf(const std::string& text) {
    const std::string_view controller = findCgroup(text, "memory") ? "memory" : "";
    const auto path = findCgroup(text, controller);
    return path ? findCgroupDirectory(readMountTable(), controller, *path) : std::nullopt;
}

std::string parentOf(const std::string& path) {
    return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
}

}  // namespace

MemoryCgroup::MemoryCgroup(UniqueFd open, std::string path)
    : directory(std::move(open)),
      place(std::move(path)),
      isVersion1(hasFile(directory.get(), "memory.failcnt")) {}

std::string MemoryCgroup::read(const char* name) const {
    constexpr std::size_t largest = 64U << 10U;
    const UniqueFd file(::openat(directory.get(), name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    return file ? readAll(file.get(), largest, name) : std::string();
}

std::optional<std::uint64_t> MemoryCgroup::hardLimit() const {
    return limitOf(read(isVersion1 ? "memory.limit_in_bytes" : "memory.max"));
}

std::optional<std::uint64_t> MemoryCgroup::limit() const {
    return isVersion1 ? hardLimit() : lower(hardLimit(), limitOf(read("memory.high")));
}

std::uint64_t MemoryCgroup::hits() const {
    return isVersion1 ? number(read("memory.failcnt")) : numberOf(read("memory.events"), "oom");
}

std::uint64_t MemoryCgroup::kills() const {
    return numberOf(read(isVersion1 ? "memory.oom_control" : "memory.events"), "oom_kill");
}

std::uint64_t MemoryCgroup::peak() const {
    return number(read(isVersion1 ? "memory.max_usage_in_bytes" : "memory.peak"));
}

std::uint64_t MemoryCgroup::files() const {
    return numberOf(read("memory.stat"), isVersion1 ? "total_shmem" : "shmem");
}

std::vector<MemoryCgroup> memoryCgroups() noexcept try {
    return memoryCgroups(readFile("/proc/self/cgroup"));
} catch (const Error&) {
    return {};
}

std::vector<MemoryCgroup> memoryCgroups(const std::string& membership) noexcept try {
    std::vector<MemoryCgroup> found;
    auto path = directoryOf(membership);
    auto current = path ? openCgroup(*path) : UniqueFd();
    struct stat below {};
    struct stat here {};
    while (current && ::fstat(current.get(), &here) == 0 &&
           here.st_ino != below.st_ino) {  // nothing is above the root of a hierarchy that was unmounted
        auto above = openCgroup(cat(descriptorPath(current.get()), "/.."));
        if (hasFile(current.get(), "memory.stat")) {
            found.emplace_back(std::move(current), *path);
        }
        below = here;
        path = parentOf(*path);
        current = std::move(above);
    }
    return found;
} catch (const Error&) {
    return {};  // as on a node without cgroups
}

std::optional<std::uint64_t> lowestMemoryLimit(const std::vector<MemoryCgroup>& cgroups) {
    std::optional<std::uint64_t> lowest;
    for (const auto& cgroup : cgroups) {
        lowest = lower(lowest, cgroup.limit());
    }
    return lowest && *lowest < nodeMemory() ? lowest : std::nullopt;
}

std::uint64_t nodeMemory() {
    struct sysinfo information {};
    return ::sysinfo(&information) == 0 ? std::uint64_t{information.totalram} * information.mem_unit
                                        : noLimit;
}

int raisedOomScore(std::optional<std::uint64_t> limit) {
    constexpr std::uint64_t handicap = 128'000'000;
    constexpr std::uint64_t most = 1000;  // of the kernel, which takes it for the whole memory
    constexpr const char* file = "/proc/self/oom_score_adj";
    const auto memory = std::max<std::uint64_t>(limit.value_or(nodeMemory()), handicap);
    const auto raise = std::max<std::uint64_t>(handicap * most / memory, 1);
    int own = 0;
    const auto text = readFile(file);
    std::from_chars(text.data(), text.data() + text.size(), own);
    return std::min(own + static_cast<int>(raise), static_cast<int>(most));
}

std::uint64_t numberOf(std::string_view text, std::string_view key) {
    for (const auto& line : split(text, '\n')) {
        if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
            return number(std::string_view(line).substr(key.size() + 1));
        }
    }
    return 0;
}

}  // namespace sarus::node
