#include "hooks/kit/device_access.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "hooks/kit/container_cgroups.hpp"
#include "hooks/kit/container_namespaces.hpp"

namespace sarus::hooks {

namespace {

/// The cgroup in the hierarchy of the device controller, from the text of /proc/<pid>/cgroup.
std::optional<CgroupEntry> deviceCgroupOf(std::string_view cgroups) {
    auto entries = parseCgroups(cgroups);
    const auto found = std::find_if(entries.begin(), entries.end(), [](const CgroupEntry& entry) {
        const auto& names = entry.controllers;
        return std::find(names.begin(), names.end(), "devices") != names.end();
    });
    return found == entries.end() ? std::nullopt : std::optional(std::move(*found));
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

/// Like isOwnCgroup(), if /proc belongs to another namespace. `cgroup.procs` omits processes outside our pid
/// namespace, and those are the ones that matter. So this checks the cgroup of every process of the node.
bool hasNoStrangers(std::string_view cgroups) {
    const auto cgroup = deviceCgroupOf(cgroups);
    const auto expected = mountNamespaceOf(0);
    Directory processes("/proc", Missing::isError);
    if (!expected) {
        return false;
    }
    while (const char* name = processes.next()) {
        const auto number = parseNumber(name);
        if (!number) {
            continue;
        }
        const auto directory = cat("/proc/", *number);
        const UniqueFd file(::open(cat(directory, "/cgroup").c_str(), O_RDONLY | O_CLOEXEC));
        struct stat status {};
        try {
            if (!file || deviceCgroupOf(readAll(file.get(), 1U << 20U, directory)) != cgroup) {
                continue;
            }
        } catch (const Error&) {
            continue;  // the process has just ended
        }
        if (::stat(cat(directory, "/ns/mnt").c_str(), &status) == 0 &&
            std::pair(status.st_dev, status.st_ino) != *expected) {
            return false;
        }
    }
    return true;
}

/// A cgroup is the container's own if all its processes see the container's mounts. Processes of the runtime,
/// the workload manager's step and other containers do not.
bool isOwnCgroup(const std::string& cgroup, pid_t containerPid) {
    const auto expected = mountNamespaceOf(containerPid);
    for (const auto& word : splitWords(readFile(cat(cgroup, "/cgroup.procs")))) {
        const auto member = parseNumber(word);
        if (!member || *member == 0) {
            return false;  // 0: a process outside our pid namespace
        }
        const auto its = mountNamespaceOf(static_cast<pid_t>(*member));
        if (its && its != expected) {
            return false;
        }
    }
    return expected.has_value();
}

}  // namespace

std::optional<std::string> findDeviceCgroup(std::string_view mountinfo, std::string_view cgroups) {
    const auto cgroup = deviceCgroupOf(cgroups);
    return cgroup ? findCgroup(mountinfo, {.controllers = {"devices"}, .path = cgroup->path}) : std::nullopt;
}

DeviceGrant grantDevice(pid_t containerPid, char type, dev_t device, std::string_view access) {
    if ((type != 'c' && type != 'b') || access.empty() ||
        access.find_first_not_of("rwm") != std::string_view::npos) {
        throw Error(cat("Not a device rule: type '", type, "', access '", printable(access), "'"));
    }
    // Then the pid has no meaning here, and this process is in the container's cgroup.
    const bool isInside = !procIsOurs();
    const auto cgroups = readFile(processFile(isInside ? 0 : containerPid, "cgroup"));
    const auto cgroup = findDeviceCgroup(readFile("/proc/self/mountinfo"), cgroups);
    const auto list = cgroup ? cat(*cgroup, "/devices.list") : std::string();
    if (!cgroup || !pathExists(list) || !isCgroup(*cgroup)) {  // another mount may cover a hierarchy
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
    const auto file = openFile(cat(*cgroup, "/devices.allow"), O_WRONLY | O_NOFOLLOW);
    writeAll(file.get(), rule, cat("the rule '", rule, "' to ", printable(*cgroup), "/devices.allow"));
    return DeviceGrant::granted;
}

std::optional<bool> mayUseDevice(pid_t containerPid, const std::string& path, std::string_view access) {
    const auto pid = procIsOurs() ? containerPid : 0;
    if (readFile(processFile(pid, "cgroup")) != readFile("/proc/self/cgroup")) {
        return std::nullopt;
    }
    const bool reads = access.find('r') != std::string_view::npos;
    const bool writes = access.find('w') != std::string_view::npos;
    // The kernel applies the device rules at every permission check (inode_permission), not only in open(2).
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
            return cat("On cgroup version 2 a hook cannot amend the device rules; access to ",
                       printable(devicePath), " must be requested when the container is created");
    }
    return {};
}

}  // namespace sarus::hooks
