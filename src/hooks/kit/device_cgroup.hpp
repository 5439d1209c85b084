#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace sarus::hooks {

/// What became of a request to let a container use a device.
enum class DeviceGrant {
    granted,         ///< a rule was added to the container's own cgroup (version 1)
    alreadyAllowed,  ///< the container's cgroup (version 1) allows every device
    notOwnCgroup,    ///< the cgroup holds processes which are not the container's: a rule would widen what the whole job may do
    unifiedCgroups,  ///< cgroup version 2: device rules are a program which only the runtime can install
    noCgroups        ///< no device cgroup is in force
};

/// One line for the user's eyes about a grant which a hook could not make; empty if the container can use the device as far as
/// device cgroups are concerned.
std::string explainGrant(DeviceGrant grant, std::string_view devicePath);

/// Allows the container the device (`type` 'c' or 'b') with `access`, a non-empty subset of "rwm". `containerPid` is the pid
/// of the OCI state; values that mean "not known" (see enterNamespace) stand for this process itself, which in those stages is in
/// the container's cgroup. Throws Error if the kernel refuses the rule or if files of /proc have an unexpected form.
DeviceGrant grantDevice(pid_t containerPid, char type, dev_t device, std::string_view access);

/// Whether the cgroup rules in force, of either version, let the container use the device at `path`, as far as reading and
/// writing are concerned. Only a process in the container's cgroup can tell: nullopt if this one is in another. Does not open the
/// device. Only for a process which file permissions do not stop (root).
std::optional<bool> mayUseDevice(pid_t containerPid, const std::string& path, std::string_view access);

/// Where a process is in the hierarchy of the version 1 device controller.
struct DeviceCgroup {
    std::string directory;  ///< absolute path of the cgroup's directory
    bool operator==(const DeviceCgroup&) const = default;
};

/// The pure part: finds the cgroup from the texts of /proc/<pid>/mountinfo and /proc/<pid>/cgroup; nullopt if the device
/// controller of version 1 is not mounted. Throws Error if the process's cgroup lies outside of what is mounted.
std::optional<DeviceCgroup> findDeviceCgroup(std::string_view mountinfo, std::string_view cgroups);

}  // namespace sarus::hooks
