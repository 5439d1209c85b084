#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/unique_fd.hpp"
#include "engine/container_plan.hpp"
#include "engine/late_rules.hpp"
#include "engine/site_config.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/rootfs/rootfs.hpp"

namespace sarus::starter {

/// Performs mounts and creates entries inside a container's root filesystem, on behalf of its user.
///
/// Rules for destinations:
/// - They are resolved inside the root, first as the user, and with root's rights only where the user may not
///   search or create in a directory of the image.
/// - With root's rights, lookups and creations happen only on the container's own mounts (the overlay and
///   /dev). What the user or the site has mounted into the container belongs to the host: there, only the
///   user's own rights apply.
/// - Nobody can mount on the root, /dev, entries of /dev that the runtime creates, or its mounts on /proc and
///   /sys: that could only mislead the runtime. This holds for the resolved path, so no link of an image can
///   bypass it.
/// - The site's `userMounts` rules hold for the resolved path too, so no symbolic link of an image can bypass
///   them.
class ContainerTree {
public:
    /// `rootFd`: O_PATH of the root directory; `devFd`: of its /dev. Both must outlive the object.
    ContainerTree(const Credentials& theCredentials, const engine::SiteConfig& theConfig, int rootFd,
                  int devFd);

    /// Binds the source, or mounts a memory file system that belongs to the user. Throws Error "Failed to
    /// bind mount <source> on container's <destination>: ...".
    void bind(const engine::PlannedMount& mount) const;

    /// Binds a device node and returns the rule for it. Throws Error "Invalid device request '<request>':
    /// ...".
    ///
    /// A CDI file may ask for a node whose numbers, owner or mode differ from the host's. With privileges
    /// such a node is created in the container's /dev. Without privileges the host's node is bound if its
    /// numbers match, and keeps its owner and mode. A FIFO is always created. nullopt if no rule is needed,
    /// or if the file wants the device without access.
    std::optional<oci::RuntimeDeviceRule> bindDevice(const engine::PlannedDevice& device) const;

    /// Creates the working directory if it is missing. Returns whether the user may enter it. Throws Error if
    /// the path leads below /proc.
    bool createWorkdir(const std::string& path) const;

    /// Creates the home directory, empty, if it is missing and would be on the container's own mounts:
    /// nothing is created in a directory of the host. A failure is no error.
    void createHome(const std::string& path) const;

    /// Throws Error unless /dev is still the container's own and lacks the entries that the runtime creates
    /// there (oci/runtime_devices.hpp): a path such as "/dev/null/../x" creates more than it names.
    void requireDevForRuntime() const;

private:
    /// What to mount, or without a descriptor, the reason why not.
    struct Source {
        UniqueFd fd;
        struct stat status {};
        int error = 0;
    };

    Source openSource(const std::string& path, engine::MountOrigin origin) const;
    /// Opens the destination. Creates missing entries, owned by the user.
    UniqueFd openDestination(const std::string& path, EntryKind kind) const;
    void makeNode(const engine::PlannedDevice& device, const engine::DeviceNode& node) const;
    void bindSource(const Source& source, const std::string& destination, const BindAttributes& attributes,
                    engine::MountOrigin origin) const;
    void mountTmpfs(const engine::PlannedMount& mount) const;
    std::string pathInside(int resolved) const;
    void requireOwnMount(int directory) const;

    const Credentials& credentials;
    const engine::SiteConfig& config;
    int root;
    int dev;
    std::string rootPath;
    std::uint64_t rootMount;
    std::uint64_t devMount;
};

}  // namespace sarus::starter
