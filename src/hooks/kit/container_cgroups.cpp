#include "hooks/kit/container_cgroups.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

namespace {

bool isMountOf(const MountEntry& mount, const CgroupEntry& cgroup) {
    if (cgroup.controllers.empty()) {
        return mount.type == "cgroup2";
    }
    const auto options = split(mount.superOptions, ',');
    return mount.type == "cgroup" &&
           std::find(options.begin(), options.end(), cgroup.controllers.front()) != options.end();
}

}  // namespace

std::vector<CgroupEntry> parseCgroups(std::string_view cgroups) {
    std::vector<CgroupEntry> entries;
    for (const auto& line : split(cgroups, '\n')) {
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second != std::string::npos && line.substr(second + 1).starts_with('/')) {
            const auto controllers = line.substr(first + 1, second - first - 1);
            entries.push_back({controllers.empty() ? std::vector<std::string>() : split(controllers, ','),
                               line.substr(second + 1)});
        }
    }
    return entries;
}

std::optional<std::string> findCgroup(std::string_view mountinfo, const CgroupEntry& cgroup) {
    const auto& path = cgroup.path;
    for (const auto& mount : parseMountTable(mountinfo)) {
        if (!isMountOf(mount, cgroup)) {
            continue;
        }
        // The mounted part of the hierarchy must contain the cgroup: compare whole components.
        const auto& root = mount.root;
        const bool inside = root == "/" || path == root || path.starts_with(cat(root, '/'));
        if (!inside || root.starts_with("/..") || path.starts_with("/..") ||
            path.find("/../") != std::string::npos) {
            throw Error(cat("The container's cgroup ", printable(path),
                            " is not below the mounted hierarchy ", printable(root)),
                        "The hook runs in another cgroup namespace than the container");
        }
        return cat(mount.mountPoint, root == "/" ? (path == "/" ? "" : path) : path.substr(root.size()));
    }
    return std::nullopt;
}

bool isCgroup(const std::string& directory) {
    struct statfs filesystem {};
    return ::statfs(directory.c_str(), &filesystem) == 0 &&
           (filesystem.f_type == CGROUP_SUPER_MAGIC || filesystem.f_type == CGROUP2_SUPER_MAGIC);
}

namespace {

bool hasDevices(const CgroupEntry& cgroup) {
    return std::find(cgroup.controllers.begin(), cgroup.controllers.end(), "devices") !=
           cgroup.controllers.end();
}

/// Empty if the cgroup cannot be opened from here.
UniqueFd openProcesses(std::string_view mountinfo, const CgroupEntry& cgroup) {
    std::optional<std::string> directory;
    try {
        directory = findCgroup(mountinfo, cgroup);
    } catch (const Error&) {
        return {};  // it is outside of this process's cgroup namespace
    }
    return UniqueFd(directory && isCgroup(*directory)
                        ? ::open(cat(*directory, "/cgroup.procs").c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC)
                        : -1);
}

}  // namespace

std::vector<JoinableCgroup> openCgroupsOf(pid_t pid) {
    const auto own = parseCgroups(readFile("/proc/self/cgroup"));
    const auto mounts = readFile("/proc/self/mountinfo");
    const auto entries = parseCgroups(readFile(cat("/proc/", pid, "/cgroup")));
    const bool isDevicesHierarchyMade = std::any_of(entries.begin(), entries.end(), hasDevices);
    std::vector<JoinableCgroup> found;
    for (const auto& entry : entries) {
        if (std::find(own.begin(), own.end(), entry) == own.end()) {
            if (auto file = openProcesses(mounts, entry)) {
                // Version 2 limits devices where version 1 does not.
                const bool limitsDevices =
                    hasDevices(entry) || (!isDevicesHierarchyMade && entry.controllers.empty());
                found.push_back({std::move(file), entry, limitsDevices});
            }
        }
    }
    return found;
}

void joinCgroup(const JoinableCgroup& cgroup, const HookLogger& log) {
    try {
        writeAll(cgroup.processes.get(), "0", cat("the container's cgroup ", printable(cgroup.entry.path)));
    } catch (const Error& error) {
        if (cgroup.limitsDevices) {
            throw;
        }
        log.warn(cat("Not all limits of the container hold for this process: ", error.what()));
    }
}

}  // namespace sarus::hooks
