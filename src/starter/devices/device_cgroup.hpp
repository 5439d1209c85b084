#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "oci/runtime/runtime_config.hpp"

namespace sarus::starter {

/// Name prefix of the cgroups that the starter creates or has runc create.
inline constexpr std::string_view leafPrefix = "sarus-";

/// Name of a container's leaf. Includes the user, because containers of several users may have the same name
/// and the same parent cgroup.
std::string leafNameOf(uid_t user, std::string_view containerName);

/// The rules of a container's device cgroup as lines for the v1 controller: those of the plan and of the
/// precreate hooks' edits, and the standard devices, marked with "?" because the job's own cgroup may not
/// allow them.
std::string deviceRulesText(const std::vector<oci::RuntimeDeviceRule>& rules,
                            const std::vector<oci::RuntimeDeviceRule>& more);

/// Removes a cgroup if it has no processes. Killed processes may take a moment to leave it: tries `attempts`
/// times, 1 ms apart.
void removeEmptyCgroup(int parent, const std::string& name, int attempts) noexcept;

/// Like removeEmptyCgroup(), if the cgroup's lock is free (DeviceCgroup).
void removeUnusedCgroup(int parent, const std::string& name, int attempts) noexcept;

/// The caller's own cgroup in the v1 devices hierarchy, or in the v2 hierarchy if that is the only one.
struct OwnCgroup {
    /// nullopt if neither hierarchy is mounted. Call it before mounting anything that a user has chosen: such
    /// a mount could imitate the hierarchy.
    static std::optional<OwnCgroup> open();

    UniqueFd directory;
    int error = 0;  ///< why `directory` is empty
    std::string path;
    bool unified = false;
};

/// A leaf below the caller's own cgroup: in the v1 devices hierarchy, or in the v2 hierarchy without any
/// controller. The limits of the caller's cgroup still apply to its processes, which may open only the
/// standard devices and those of the plan. The destructor removes the leaf if it has no processes.
class DeviceCgroup {
public:
    /// Removes leaves left by interrupted starts. Only the allow rules of `more` matter: everything else is
    /// forbidden anyway. Throws Error if a rule asks for more than the caller's own cgroup allows.
    static DeviceCgroup create(OwnCgroup own, const std::string& leafName,
                               const std::vector<oci::RuntimeDeviceRule>& rules,
                               const std::vector<oci::RuntimeDeviceRule>& more = {});

    /// Version 2: the leaf named by runcCgroupsPath(), in which runc makes the rules. The lock keeps others
    /// from sweeping it, and the leaf is removed with the container even if runc has no time to do so.
    static DeviceCgroup createForRunc(OwnCgroup own, const std::string& leafName);

    DeviceCgroup(DeviceCgroup&&) noexcept = default;
    DeviceCgroup& operator=(DeviceCgroup&&) noexcept = default;
    ~DeviceCgroup() { remove(); }

    const std::string& path() const noexcept { return shown; }
    /// cgroup.procs, opened for writing; -1 if the runtime moves its processes itself.
    int processes() const noexcept { return procs.get(); }
    /// Adds the numbers of the descriptors that remove() needs.
    void appendDescriptors(std::vector<int>& numbers) const;
    void remove() noexcept;
    /// The other process of a fork owns the leaf from now on.
    void release() noexcept { parent.reset(); }

private:
    DeviceCgroup() = default;
    static DeviceCgroup makeLeaf(OwnCgroup own, const std::string& leafName);

    UniqueFd parent;
    UniqueFd leaf;  ///< flock(2)ed while in use
    UniqueFd procs;
    std::string name;
    std::string shown;
};

}  // namespace sarus::starter
