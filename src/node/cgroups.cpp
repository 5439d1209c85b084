#include "node/cgroups.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.hpp"

namespace sarus::node {

namespace {

bool isFilesystem(const char* path, long magic) {
    struct statfs filesystem {};
    return ::statfs(path, &filesystem) == 0 && filesystem.f_type == magic;
}

bool lists(const std::vector<std::string>& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

CgroupLayout detectCgroupLayout() {
    if (isFilesystem("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC)) {
        return CgroupLayout::unified;
    }
    if (!isFilesystem("/sys/fs/cgroup", TMPFS_MAGIC)) {
        return CgroupLayout::none;
    }
    return isFilesystem(hybridUnifiedTree, CGROUP2_SUPER_MAGIC) ? CgroupLayout::hybrid : CgroupLayout::legacy;
}

std::vector<CgroupMembership> parseCgroups(std::string_view procCgroup) {
    std::vector<CgroupMembership> memberships;
    for (const auto& line : split(procCgroup, '\n')) {
        const auto first = line.find(':');  // the path may contain colons, too
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second != std::string::npos) {
            memberships.push_back(
                {split(line.substr(first + 1, second - first - 1), ','), line.substr(second + 1)});
        }
    }
    return memberships;
}

std::optional<std::string> findCgroup(std::string_view procCgroup, std::string_view controller) {
    for (auto& membership : parseCgroups(procCgroup)) {
        if (lists(membership.controllers, controller)) {
            return std::move(membership.path);
        }
    }
    return std::nullopt;
}

bool isHierarchy(const MountEntry& mount, std::string_view controller) {
    return controller.empty() ? mount.type == "cgroup2"
                              : mount.type == "cgroup" && lists(split(mount.superOptions, ','), controller);
}

std::optional<std::string> findCgroupDirectory(const std::vector<MountEntry>& mounts,
                                               std::string_view controller, std::string_view path) {
    std::optional<std::string> found;  // the last one, which may cover others
    for (const auto& mount : mounts) {
        if (!isHierarchy(mount, controller)) {
            continue;
        }
        if (mount.root == "/") {
            found = path == "/" ? mount.mountPoint : cat(mount.mountPoint, path);
        } else if (path == mount.root || path.starts_with(cat(mount.root, '/'))) {
            found = cat(mount.mountPoint, path.substr(mount.root.size()));
        }
    }
    return found;
}

UniqueFd openCgroup(const std::string& directory) {
    UniqueFd fd(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct statfs filesystem {};
    if (fd && (::fstatfs(fd.get(), &filesystem) != 0 ||
               (filesystem.f_type != CGROUP_SUPER_MAGIC && filesystem.f_type != CGROUP2_SUPER_MAGIC))) {
        fd.reset();
        errno = ENOENT;
    }
    return fd;
}

}  // namespace sarus::node
