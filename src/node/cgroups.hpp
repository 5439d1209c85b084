#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mount_table.hpp"
#include "base/unique_fd.hpp"

namespace sarus::node {

/// How the node's control groups are mounted (cgroups(7)).
enum class CgroupLayout { none, legacy, hybrid, unified };

/// Mount point of the version 2 hierarchy in a hybrid layout.
inline constexpr const char* hybridUnifiedTree = "/sys/fs/cgroup/unified";

CgroupLayout detectCgroupLayout();

/// The cgroup of a process in one hierarchy.
struct CgroupMembership {
    std::vector<std::string> controllers;  ///< of the hierarchy; {""} for version 2
    std::string path;
};

/// The text of /proc/<pid>/cgroup.
std::vector<CgroupMembership> parseCgroups(std::string_view procCgroup);

/// The path of a process in the v1 hierarchy of `controller` ("": the v2 hierarchy), from the text of its
/// /proc/<pid>/cgroup.
std::optional<std::string> findCgroup(std::string_view procCgroup, std::string_view controller);

/// Whether this is a mount of the v1 hierarchy of `controller` ("": the v2 hierarchy).
bool isHierarchy(const MountEntry& mount, std::string_view controller);

/// Where `path` of the v1 hierarchy with `controller` ("": the v2 hierarchy) appears in the filesystem.
std::optional<std::string> findCgroupDirectory(const std::vector<MountEntry>& mounts,
                                               std::string_view controller, std::string_view path);

/// O_PATH; empty, with errno, if it is missing or not a cgroup: the mount table alone is no proof.
UniqueFd openCgroup(const std::string& directory);

}  // namespace sarus::node
