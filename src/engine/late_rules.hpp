#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/container_plan.hpp"
#include "engine/site_config.hpp"

namespace sarus::engine {

// Rules that apply only after the starter has opened a source or resolved a destination, which plan() does
// not do. They are pure, too: the result of the lookup is an argument.

/// Whether the source is looked up with only the user's rights, because the administrator did not choose the
/// path.
bool isLookedUpAsUser(MountOrigin origin);

/// Whether a missing source is skipped: a job that has ended may have left it in the environment, or it
/// belongs to another PMIx version.
bool mayBeMissing(MountOrigin origin);

/// Whether the mount makes devices unusable: a user's mount must not bypass --device and siteDevices. The
/// standard devices, above all /dev/null, are allowed because they mask files.
bool isNodev(const PlannedMount& mount, const struct stat& source);

/// Why nothing of this origin may be mounted where `destination` resolved to, or nullopt. `resolved`: the
/// path inside the container, without links.
std::optional<std::string> whyNotMountedOn(std::string_view resolved, std::string_view destination,
                                           MountOrigin origin, const UserMountRules& rules);

/// For each mount of a user that a later one covers, a line that names both. `places`: where the mounts are
/// inside, in the same order and without links; "" for one that was skipped.
std::vector<std::string> findHiddenMounts(const std::vector<PlannedMount>& mounts,
                                          const std::vector<std::string>& places);

/// Whether the working directory is in one of the engine's own places, where the OCI runtime creates
/// everything.
bool isWorkdirOfRuntime(std::string_view workdir);

/// Throws Error if the working directory resolved to a place where no program may start.
void checkResolvedWorkdir(std::string_view resolved);

/// What was found at the source of a device.
struct FoundSource {
    const struct stat* status = nullptr;  ///< nullptr: nothing, because of `error`
    int error = 0;
};

/// The user for whom nodes are created.
struct NodeOwner {
    uid_t uid = 0;
    gid_t gid = 0;
    bool privileged = false;  ///< whether a node can be created that the host does not have
};

/// The node that a container gets. Mode and number are as for mknod(2).
struct DeviceNode {
    mode_t mode = 0;
    dev_t number = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    bool isNew = false;  ///< false: the source itself
    /// A new node with the numbers of the source: the source must be the host's node of that path in /dev.
    /// Elsewhere a user could have put another one in its place.
    bool mustBeHosts = false;
};

/// The CDI file's attributes take precedence; the rest is the source's. Throws Error.
DeviceNode decideNode(const PlannedDevice& device, const FoundSource& found, const NodeOwner& owner);

}  // namespace sarus::engine
