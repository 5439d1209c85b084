#include "hooks/kit/device_cgroup.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/text.hpp"
#include "hooks/kit/namespaces.hpp"

namespace sarus::hooks {

namespace {

bool listHolds(std::string_view list, std::string_view word) {
    const auto words = split(list, ',');
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// The path in the hierarchy of the device controller, from /proc/<pid>/cgroup ("4:devices:/path").
std::optional<std::string> devicePathOf(std::string_view cgroups) {
    for (const auto& line : split(cgroups, '\n')) {
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second != std::string::npos && listHolds(std::string_view(line).substr(first + 1, second - first - 1), "devices")) {
            return line.substr(second + 1);
        }
    }
    return std::nullopt;
}

bool isCgroup(const std::string& directory) {
    struct statfs filesystem {};
    return ::statfs(directory.c_str(), &filesystem) == 0 && filesystem.f_type == CGROUP_SUPER_MAGIC;
}

std::string processFile(pid_t pid, std::string_view name) {
    return pid <= 1 ? cat("/proc/self/", name) : cat("/proc/", pid, '/', name);
}

/// Identity of a process's mount namespace; nullopt if the process is gone.
std::optional<std::pair<dev_t, ino_t>> mountNamespaceOf(pid_t pid) {
    struct stat status {};
    if (::stat(processFile(pid, "ns/mnt").c_str(), &status) != 0) {
        return std::nullopt;
    }
    return std::pair(status.st_dev, status.st_ino);
}

struct CloseDir {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

/// The same question where /proc is another namespace's: `cgroup.procs` leaves out processes that our pid namespace does not
/// know, but those are the strangers. So every process of the node is asked for its cgroup.
bool hasNoStrangers(std::string_view cgroups) {
    const auto path = devicePathOf(cgroups);
    const auto expected = mountNamespaceOf(0);
    const std::unique_ptr<DIR, CloseDir> processes(::opendir("/proc"));
    if (!processes || !expected) {
        return false;
    }
    while (const dirent* entry = ::readdir(processes.get())) {
        const auto number = parseNumber(entry->d_name);
        if (!number) {
            continue;
        }
        const auto directory = cat("/proc/", *number);
        const UniqueFd file(::open(cat(directory, "/cgroup").c_str(), O_RDONLY | O_CLOEXEC));
        struct stat status {};
        try {
            if (!file || devicePathOf(readAll(file.get(), 1U << 20U, directory)) != path) {
                continue;
            }
        } catch (const Error&) {
            continue;  // the process has just ended
        }
        if (::stat(cat(directory, "/ns/mnt").c_str(), &status) == 0 && std::pair(status.st_dev, status.st_ino) != *expected) {
            return false;
        }
    }
    return true;
}

/// A cgroup is the container's own if all of its processes see the container's mounts. The runtime, the workload manager's
/// step and other containers do not.
bool isOwnCgroup(const DeviceCgroup& cgroup, pid_t containerPid) {
    const auto expected = mountNamespaceOf(containerPid);
    for (const auto& word : splitWords(readFile(cat(cgroup.directory, "/cgroup.procs")))) {
        const auto member = parseNumber(word);
        if (!member || *member == 0) {
            return false;  // 0: a process outside of our pid namespace
        }
        const auto its = mountNamespaceOf(static_cast<pid_t>(*member));
        if (its && its != expected) {
            return false;
        }
    }
    return expected.has_value();
}

}  // namespace

std::optional<DeviceCgroup> findDeviceCgroup(std::string_view mountinfo, std::string_view cgroups) {
    const auto path = devicePathOf(cgroups);
    if (!path) {
        return std::nullopt;
    }
    for (const auto& mount : parseMountTable(mountinfo)) {
        if (mount.type != "cgroup" || !listHolds(mount.superOptions, "devices")) {
            continue;
        }
        // The mounted part of the hierarchy must contain the cgroup: compare whole components.
        const auto& root = mount.root;
        const bool inside = root == "/" || *path == root || path->starts_with(cat(root, '/'));
        if (!inside || root.starts_with("/..") || path->starts_with("/..") || path->find("/../") != std::string::npos) {
            throw Error(
                cat("The container's device cgroup ", printable(*path), " is not below the mounted hierarchy ", printable(root)),
                "the hook runs in another cgroup namespace than the container");
        }
        return DeviceCgroup{cat(mount.mountPoint, root == "/" ? (*path == "/" ? "" : *path) : path->substr(root.size()))};
    }
    return std::nullopt;
}

DeviceGrant grantDevice(pid_t containerPid, char type, dev_t device, std::string_view access) {
    if ((type != 'c' && type != 'b') || access.empty() || access.find_first_not_of("rwm") != std::string_view::npos) {
        throw Error(cat("Not a device rule: type '", type, "', access '", printable(access), "'"));
    }
    const bool isInside = !procIsOurs();  // then the pid means nothing here, and this process is in the container's cgroup
    const auto cgroups = readFile(processFile(isInside ? 0 : containerPid, "cgroup"));
    const auto cgroup = findDeviceCgroup(readFile("/proc/self/mountinfo"), cgroups);
    const auto list = cgroup ? cat(cgroup->directory, "/devices.list") : std::string();
    if (!cgroup || !pathExists(list) || !isCgroup(cgroup->directory)) {  // a hierarchy may be covered by another mount
        const bool unified = ("\n" + cgroups).find("\n0::") != std::string::npos;
        return unified ? DeviceGrant::unifiedCgroups : DeviceGrant::noCgroups;
    }
    const auto rules = readFile(list);
    if (rules.starts_with("a ")) {
        return DeviceGrant::alreadyAllowed;
    }
    if (isInside ? !hasNoStrangers(cgroups) : !isOwnCgroup(*cgroup, containerPid)) {
        return DeviceGrant::notOwnCgroup;
    }
    const auto rule = cat(type, ' ', major(device), ':', minor(device), ' ', access);
    const auto file = openFile(cat(cgroup->directory, "/devices.allow"), O_WRONLY | O_NOFOLLOW);
    writeAll(file.get(), rule, cat("the rule '", rule, "' to ", printable(cgroup->directory), "/devices.allow"));
    return DeviceGrant::granted;
}

std::optional<bool> mayUseDevice(pid_t containerPid, const std::string& path, std::string_view access) {
    const auto pid = procIsOurs() ? containerPid : 0;
    if (readFile(processFile(pid, "cgroup")) != readFile("/proc/self/cgroup")) {
        return std::nullopt;
    }
    const bool reads = access.find('r') != std::string_view::npos;
    const bool writes = access.find('w') != std::string_view::npos;
    // The kernel asks the rules for devices whenever it checks permissions (inode_permission), not only for open(2).
    return ::faccessat(AT_FDCWD, path.c_str(), (reads ? R_OK : 0) | (writes ? W_OK : 0), AT_EACCESS) == 0;
}

std::string explainGrant(DeviceGrant grant, std::string_view devicePath) {
    switch (grant) {
        case DeviceGrant::granted:
        case DeviceGrant::alreadyAllowed:
        case DeviceGrant::noCgroups:
            return {};
        case DeviceGrant::notOwnCgroup:
            return cat("The container has no device cgroup of its own; access to ", printable(devicePath),
                       " is as the job step's cgroup allows it");
        case DeviceGrant::unifiedCgroups:
            return cat("On cgroup version 2 a hook cannot amend the device rules; access to ", printable(devicePath),
                       " must be requested when the container is created");
    }
    return {};
}

}  // namespace sarus::hooks
