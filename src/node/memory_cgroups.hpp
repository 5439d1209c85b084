#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::node {

/// One memory cgroup, of version 1 or 2.
class MemoryCgroup {
public:
    /// `directory`: O_PATH. `path`: where that is, for messages.
    MemoryCgroup(UniqueFd directory, std::string path);

    const std::string& path() const noexcept { return place; }
    /// Bytes that its processes may use, before the kernel slows them down; nullopt without a limit.
    std::optional<std::uint64_t> limit() const;
    /// The same before the kernel ends them.
    std::optional<std::uint64_t> hardLimit() const;
    /// How often the hard limit was reached.
    std::uint64_t hits() const;
    /// How many of its processes the kernel has ended for lack of memory; with version 2, also those of
    /// cgroups below.
    std::uint64_t kills() const;
    /// Bytes; 0 before Linux 5.19 with version 2.
    std::uint64_t peak() const;
    /// Bytes in files of memory filesystems and in shared memory. May be slow.
    std::uint64_t files() const;

private:
    std::string read(const char* name) const;

    UniqueFd directory;
    std::string place;
    bool isVersion1;
};

/// The memory cgroup of this process and those above it, as far as they appear in the filesystem, nearest
/// first. Those of version 2 without the controller are left out. A user may have mounted what imitates a
/// hierarchy in the mount namespace of a container, so call it before entering one. Never throws.
std::vector<MemoryCgroup> memoryCgroups() noexcept;
/// The same of another process, of which `membership` is the text of /proc/PID/cgroup.
std::vector<MemoryCgroup> memoryCgroups(const std::string& membership) noexcept;

/// The lowest limit(); nullopt if there is none below the memory of the node.
std::optional<std::uint64_t> lowestMemoryLimit(const std::vector<MemoryCgroup>& cgroups);

/// The memory of the node, in bytes.
std::uint64_t nodeMemory();

/// For processes that the kernel shall end before this one and its companions when memory is full: their
/// oom_score_adj (proc(5)), as if they used 128 MB more. `limit`: of lowestMemoryLimit(). Anybody may raise
/// this value. Throws Error.
int raisedOomScore(std::optional<std::uint64_t> limit);

/// The number behind `key` in a text of lines "KEY NUMBER"; 0 if there is none.
std::uint64_t numberOf(std::string_view text, std::string_view key);

}  // namespace sarus::node
