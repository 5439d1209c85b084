#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace sarus::hooks {

/// Result of granting a container access to a device.
enum class DeviceGrant {
    granted,         ///< a rule was added to the container's own cgroup (version 1)
    alreadyAllowed,  ///< the container's cgroup (version 1) allows every device
    /// The cgroup contains processes outside the container: a rule would widen the job's rights.
    notOwnCgroup,
    unifiedCgroups,  ///< cgroup version 2: device rules are a program that only the runtime can install
    noCgroups        ///< no device cgroup is in effect
};

/// One line for the user about a grant that failed; empty if device cgroups do not prevent the container from
/// using the device.
std::string explainGrant(DeviceGrant grant, std::string_view devicePath);

/// Grants the container `access`, a non-empty subset of "rwm", to the device (`type` 'c' or 'b').
/// `containerPid` is the pid of the OCI state; values that mean "unknown" (see enterNamespace) stand for this
/// process itself, which at those stages is in the container's cgroup. Throws Error if the kernel refuses the
/// rule or files of /proc are malformed.
DeviceGrant grantDevice(pid_t containerPid, char type, dev_t device, std::string_view access);

/// Whether the cgroup rules in effect, of either version, let the container read and write the device at
/// `path`. Only a process in the container's cgroup can find out: nullopt if this one is in another. Does not
/// open the device. Requires a process that ignores file permissions (root).
std::optional<bool> mayUseDevice(pid_t containerPid, const std::string& path, std::string_view access);

/// Finds the directory of the cgroup in the hierarchy of the version 1 device controller from the texts of
/// /proc/<pid>/mountinfo and /proc/<pid>/cgroup. nullopt if that controller is not mounted. Pure. Throws
/// Error if the process's cgroup lies outside the mounted part.
std::optional<std::string> findDeviceCgroup(std::string_view mountinfo, std::string_view cgroups);

}  // namespace sarus::hooks
