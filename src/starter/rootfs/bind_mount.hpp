#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/unique_fd.hpp"
#include "container_root/editor.hpp"
#include "engine/container_plan.hpp"
#include "engine/late_rules.hpp"
#include "engine/site_config.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// Carries out a plan's mounts and devices in a container's root filesystem, through an Editor that creates
/// destinations with the user's rights first, and with root's for the user.
///
/// - Opens sources with only the user's rights, unless the site has named them.
/// - The site's `userMounts` rules hold for the resolved destination too, so no symbolic link of an image can
///   bypass them.
class ContainerTree {
public:
    /// `theEditor`: from editorFor(). All must outlive the object. `share`: as in RootfsRequest.
    ContainerTree(const Credentials& theCredentials, const engine::SiteConfig& theConfig,
                  const container_root::Editor& theEditor, std::optional<std::uint64_t> share = {})
        : credentials(theCredentials), config(theConfig), editor(theEditor), memoryShare(share) {}

    /// Binds the source, or mounts a memory file system that belongs to the user. Returns the path inside,
    /// without links, on which it is mounted; "" if the source may be missing and is. Throws Error "Failed to
    /// bind mount <source> on container's <destination>: ...".
    std::string bind(const engine::PlannedMount& mount) const;

    /// Binds a device node and returns the rule for it. Throws Error "Invalid device request '<request>':
    /// ...".
    ///
    /// A CDI file may ask for a node whose numbers, owner or mode differ from the host's. With privileges
    /// such a node is created in the container's /dev. Without privileges the host's node is bound if its
    /// numbers match, and keeps its owner and mode. A FIFO is always created. nullopt if no rule is needed,
    /// or if the file wants the device without access.
    std::optional<oci::RuntimeDeviceRule> bindDevice(const engine::PlannedDevice& device) const;

    /// The squashfs file of a mount, O_RDONLY. Opened with the rights of whoever asks for the mount. Throws
    /// Error.
    UniqueFd openSquashfs(const engine::PlannedMount& mount) const;

    /// Like bind(), for the content of that file, which is mounted on `directory`.
    std::string bindContent(const engine::PlannedMount& mount, const std::string& directory) const;

    /// Creates the working directory if it is missing. Returns whether the user may enter it. Throws Error if
    /// the path leads below /proc.
    bool createWorkdir(const std::string& path) const;

    /// Creates a directory of the user, empty, if it is missing and would be on the container's own mounts:
    /// nothing is created in a directory of the host. A failure is no error.
    void createUsersDirectory(const std::string& path) const;

private:
    /// What to mount, or without a descriptor, the reason why not.
    struct Source {
        UniqueFd fd;
        struct stat status {};
        int error = 0;
    };

    static void requireOpen(const Source& source, const engine::PlannedMount& mount);
    Source openSource(const std::string& path, engine::MountOrigin origin) const;
    UniqueFd openDestination(const std::string& destination, EntryKind kind,
                             engine::MountOrigin origin) const;
    std::string bindSource(const Source& source, const std::string& destination,
                           const BindAttributes& attributes, engine::MountOrigin origin) const;
    std::string mountTmpfs(const engine::PlannedMount& mount) const;

    const Credentials& credentials;
    const engine::SiteConfig& config;
    const container_root::Editor& editor;
    std::optional<std::uint64_t> memoryShare;
};

/// What an Error about a mount of the plan begins with.
std::string failureOf(const engine::PlannedMount& mount);

/// Mount options, each with a comma in front, for a memory filesystem of `bytes`, with as many entries as the
/// kernel's default would give to it; "" for the kernel's default.
std::string sizeOptions(std::optional<std::uint64_t> bytes);

/// An editor for the user's root filesystem. `credentials` must outlive it.
container_root::Editor editorFor(int root, const Credentials& credentials);

/// Throws Error unless `dev`, the container's own /dev, still is its /dev and lacks the entries that the
/// runtime creates there (oci/runtime_devices.hpp): a path such as "/dev/null/../x" creates more than it
/// names.
void requireDevForRuntime(int root, int dev);

}  // namespace sarus::starter
