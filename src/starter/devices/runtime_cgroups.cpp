#include "starter/devices/runtime_cgroups.hpp"

#include <fcntl.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "node/cgroups.hpp"
#include "starter/devices/device_cgroup.hpp"

namespace sarus::starter {

void hideUnifiedHierarchy() {
    constexpr unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
    if (::mount("tmpfs", node::hybridUnifiedTree, "tmpfs", flags, "size=4k,nr_inodes=2,mode=555") != 0) {
        throw Error::fromErrno(
            cat("Failed to hide ", node::hybridUnifiedTree, " from crun, which may not start beside it"),
            errno, "Set `runcPath` in sarus.json to runc");
    }
}

void hideFreezer() {
    for (const auto& mount : readMountTable()) {
        // A hierarchy that has the devices too stays, because runc needs it; others may be covered by mounts.
        if (node::isHierarchy(mount, "freezer") && !node::isHierarchy(mount, "devices") &&
            node::openCgroup(mount.mountPoint) && ::umount2(mount.mountPoint.c_str(), MNT_DETACH) != 0) {
            throw Error::fromErrno(cat("Failed to hide ", printable(mount.mountPoint), " from runc"), errno);
        }
    }
}

std::string explainRefusedLayout(std::string_view runtimeLog, const std::string& runtimePath) {
    if (runtimeLog.find("cgroups in hybrid mode not supported") == std::string_view::npos) {
        return {};
    }
    return cat("The OCI runtime ", printable(runtimePath),
               " does not run on a node with both versions of cgroups where it sees ",
               node::hybridUnifiedTree,
               "\nSet `runcPath` in sarus.json to runc, or to crun under a name with \"crun\" in it, from "
               "which that tree is hidden");
}

std::string runcCgroupName(std::string_view leafName) {
    // isLeafName() rejects this name, so it is never swept: runc does not lock its cgroups.
    return cat(leafPrefix, "runc-", leafName);
}

std::string runcCgroupsPath(std::string_view leafName) {
    if (node::detectCgroupLayout() != node::CgroupLayout::unified) {
        return runcCgroupName(leafName);
    }
    const auto own = node::findCgroup(readFile("/proc/self/cgroup"), "").value_or("/");
    return cat(own == "/" ? "" : own, '/', leafPrefix, leafName);
}

std::vector<std::string> runcCgroups(std::string_view leafName) {
    std::vector<std::string> directories;
    if (node::detectCgroupLayout() == node::CgroupLayout::unified) {
        return directories;
    }
    const auto mounts = readMountTable();
    for (const auto& [controllers, path] : node::parseCgroups(readFile("/proc/self/cgroup"))) {
        if (const auto own = node::findCgroupDirectory(mounts, controllers.front(), path)) {
            directories.push_back(cat(*own, '/', runcCgroupName(leafName)));
        }
    }
    return directories;
}

std::vector<UniqueFd> openCgroupsToJoin(std::string_view otherProcCgroup, bool mustJoinAll) {
    const auto own = readFile("/proc/self/cgroup");
    const auto mounts = readMountTable();
    std::vector<UniqueFd> cgroups;
    for (const auto& [controllers, path] : node::parseCgroups(otherProcCgroup)) {
        const auto& controller = controllers.front();
        if (node::findCgroup(own, controller) == path) {
            continue;
        }
        const auto name = node::findCgroupDirectory(mounts, controller, path);
        const auto directory = name ? node::openCgroup(*name) : UniqueFd();
        UniqueFd processes(
            directory ? ::openat(directory.get(), "cgroup.procs", O_WRONLY | O_NOFOLLOW | O_CLOEXEC) : -1);
        const int error = name ? errno : ENOENT;
        const bool isMounted =
            std::any_of(mounts.begin(), mounts.end(), [&controller = controller](const MountEntry& mount) {
                return node::isHierarchy(mount, controller);
            });
        if (processes) {
            cgroups.push_back(std::move(processes));
        } else if (mustJoinAll && isMounted) {
            throw Error::fromErrno(cat("Failed to join the container's cgroup ", printable(path)), error);
        } else if (name) {
            logInfo("Runtime", cat("The command does not count against the container's cgroup ",
                                   printable(*name), ": ", std::strerror(error)));
        }
    }
    return cgroups;
}

}  // namespace sarus::starter
