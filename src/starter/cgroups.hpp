#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mount_table.hpp"
#include "base/unique_fd.hpp"
#include "oci/bundle_config.hpp"
#include "starter/rootfs.hpp"

namespace sarus::starter {

/// How the node's control groups are mounted (cgroups(7)).
enum class CgroupLayout { none, legacy, hybrid, unified };

CgroupLayout detectCgroupLayout();

/// Mounts an empty read-only tmpfs over /sys/fs/cgroup/unified of this mount namespace: crun before 1.9 refuses to start where it
/// sees the nearly empty v2 tree of a hybrid layout. Throws Error.
void hideUnifiedHierarchy();

/// What to tell the user if the runtime's log says that it does not run beside a v2 tree: cause and cure, a line each. "" else.
std::string explainRefusedLayout(std::string_view runtimeLog, const std::string& runtimePath);

/// The path of this process in the v1 hierarchy of `controller` ("" for the v2 one) out of the text of /proc/self/cgroup.
std::optional<std::string> findOwnCgroup(std::string_view procSelfCgroup, std::string_view controller);

/// Where `path` of the v1 hierarchy with `controller` ("": of the v2 one) is seen in the file system.
std::optional<std::string> findCgroupDirectory(const std::vector<MountEntry>& mounts, std::string_view controller,
                                               std::string_view path);

/// What a container's leaf is named by: containers of several users can have the same name, and the same cgroup above them.
std::string leafNameOf(uid_t user, std::string_view containerName);

/// The absolute cgroupsPath that keeps runc below the caller's own cgroup on a unified layout.
std::string runcCgroupsPath(std::string_view leafName);

/// The rules of a container's device cgroup as lines for the v1 controller: the usual devices, marked with "?" because the job's
/// own cgroup may have less, and those of the plan and of the precreate hooks' edits.
std::string deviceRulesText(const std::vector<DeviceRule>& rules, const std::vector<oci::BundleDeviceRule>& more);

/// cgroup.procs, opened for writing, of every cgroup in which another process is (the text of its /proc/<pid>/cgroup) and this
/// one is not: whoever writes "0" there joins it. What this process cannot reach is left out, or if it `mustJoinAll` an Error:
/// outside of that cgroup its limits and device rules do not hold.
std::vector<UniqueFd> openCgroupsToJoin(std::string_view otherProcCgroup, bool mustJoinAll);

/// Removes a cgroup if there is no process in it and nobody holds its lock (DeviceCgroup).
void removeUnusedCgroup(const std::string& directory) noexcept;

/// The caller's own cgroup, in the v1 hierarchy of devices or, where there is only version 2, in that one.
struct OwnCgroup {
    /// nullopt where neither hierarchy is mounted. To be called before anything that a user has chosen is mounted in this
    /// namespace: a mount of another cgroup would pass for the hierarchy.
    static std::optional<OwnCgroup> open();

    UniqueFd directory;
    int error = 0;  ///< why there is no directory
    std::string path;
    bool unified = false;
};

/// A leaf below the caller's own cgroup, in the v1 hierarchy of devices alone or, where there is only version 2, in that without
/// any controller: the limits of the caller's own cgroup hold for what is in it, in which nothing but the usual devices and those
/// of the plan may be opened. The destructor removes it, if no process is left in it.
class DeviceCgroup {
public:
    /// Leaves which an interrupted start left behind are removed. Of `more` only what allows something counts: everything else is
    /// forbidden anyway. Throws Error if a rule asks for more than the caller's own cgroup allows.
    static DeviceCgroup create(OwnCgroup own, const std::string& leafName, const std::vector<DeviceRule>& rules,
                               const std::vector<oci::BundleDeviceRule>& more = {});

    /// The leaf that runcCgroupsPath() names, where runc makes the rules: nobody else sweeps it meanwhile, and it goes away with
    /// the container even if runc has no time to remove it. For version 2.
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
    UniqueFd leaf;  ///< locked with flock(2) while somebody uses it
    UniqueFd procs;
    std::string name;
    std::string shown;
};

}  // namespace sarus::starter
