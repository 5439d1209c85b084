#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/unique_fd.hpp"
#include "engine/container_plan.hpp"
#include "engine/site_config.hpp"
#include "starter/credentials.hpp"
#include "starter/rootfs.hpp"

namespace sarus::starter {

/// Performs mounts and creates entries inside a container's root filesystem, on behalf of its user.
///
/// Rules for destinations:
/// - They are resolved inside the root, as the user first; with root's rights only where he may not search or create in a
///   directory of the image.
/// - With root's rights, nothing is looked up or created but on the container's own mounts (the overlay and /dev): what the user
///   or the site has mounted into the container belongs to the host, and there he finds and creates with his own rights or not
///   at all.
/// - Nothing is mounted, whoever asks for it, on the root, /dev, and what the runtime makes in /dev or mounts on /proc and /sys:
///   it could only mislead the runtime. This holds for the resolved path, so that no link of an image leads there.
/// - The site's `userMounts` rules hold for the resolved path too, so that a symbolic link in an image does not lead around them.
class ContainerTree {
public:
    /// `rootFd`: O_PATH of the root directory; `devFd`: of its /dev. Both must outlive the object.
    ContainerTree(const Credentials& theCredentials, const engine::SiteConfig& theConfig, int rootFd, int devFd);

    /// Opens the destination, after creating what is missing, owned by the user. Throws Error.
    UniqueFd openDestination(const std::string& path, EntryKind kind) const;

    /// Throws Error "Failed to bind mount <source> on container's <destination>: ...".
    void bind(const engine::PlannedMount& mount) const;

    /// Binds a device node and returns the rule for it. Throws Error "Invalid device request '<request>': ...".
    ///
    /// A CDI file may ask for a node of other numbers, owner or mode than the host's: with privileges such a node is created in
    /// /dev of the container; without them the host's is bound if its numbers are right, and keeps its owner and mode. A FIFO
    /// is always a new one. nullopt if no rule is needed, or if the file wants the device to be there without access.
    std::optional<DeviceRule> bindDevice(const engine::PlannedDevice& device) const;

    /// Creates the working directory if it is missing. Throws Error if the path leads below /proc.
    void createWorkdir(const std::string& path) const;

    /// Throws Error unless /dev is still the container's own and has none of what the runtime makes there
    /// (oci/runtime_devices.hpp): a path such as "/dev/null/../x" creates more than it names.
    void requireDevForRuntime() const;

private:
    /// What is to be mounted; without descriptor, why not.
    struct Source {
        UniqueFd fd;
        struct stat status {};
        int error = 0;
    };

    /// A node that has to be made, with the mode as mknod(2) wants it.
    struct NewNode {
        mode_t mode = 0;
        dev_t number = 0;
        uid_t uid = 0;
        gid_t gid = 0;
    };

    Source openSource(const std::string& path, engine::MountOrigin origin) const;
    std::optional<NewNode> decideNode(const engine::PlannedDevice& device, const Source& source) const;
    void makeNode(const engine::PlannedDevice& device, const NewNode& node) const;
    void bindSource(const Source& source, const std::string& destination, const BindAttributes& attributes,
                    engine::MountOrigin origin) const;
    void checkResolvedDestination(int resolved, const std::string& destination, engine::MountOrigin origin) const;
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
