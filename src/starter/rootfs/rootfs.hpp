#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/name_service.hpp"
#include "base/unique_fd.hpp"
#include "engine/container_plan.hpp"
#include "engine/site_config.hpp"
#include "oci/runtime/runtime_config.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/image/image_mount.hpp"

namespace sarus::starter {

/// Where the caller's lines in the container's passwd and group come from if the installation's files lack
/// the ids.
struct CallerAccount {
    NameService ask;   ///< its answer is the caller's: anything
    std::string home;  ///< for an account that it does not know; absolute, else "/"
};

/// Whose users and groups a container knows: those of a container in which packages are installed are its
/// own.
enum class Accounts { ofNode, ofImage };

/// The input of buildRootfs().
struct RootfsRequest {
    const engine::ContainerPlan& plan;
    const engine::SiteConfig& config;
    const Credentials& credentials;
    int imageFd = -1;            ///< O_RDONLY, opened with the caller's rights
    std::string imagePath;       ///< for messages only
    std::string containerenv{};  ///< content of /run/.containerenv; "" for none
    std::string bundleDir;       ///< exists; only root (rootless: the caller) can change it
    /// A directory (O_PATH) that nobody else can enter with "upper", which is the caller's, and "work": what
    /// the container writes stays there. -1: in memory.
    int storage = -1;
    std::string storagePath{};     ///< for messages only
    std::string imageBuilderPath;  ///< absolute path of sarus-image-builder, for rootless nodes without FUSE
    std::string squashfsServerPath;  ///< absolute path of sarus-squashfs
    Accounts accounts = Accounts::ofNode;
    std::optional<CallerAccount> account{};
    /// Bytes for a memory filesystem whose size nobody has chosen; absent: the kernel's default.
    std::optional<std::uint64_t> memoryShare{};
    std::string whyNotByKernel{};         ///< as in ImageMountRequest
    std::string imageSharingDirectory{};  ///< as in ImageMountRequest
};

/// A finished root filesystem. It exists in the mount namespace; this object holds what must outlive the
/// container: the FUSE servers of the image, of squashfs files and of the overlay (children of this process:
/// do not reap them with waitpid(-1) before the container has ended, or call forgetHelper), and the lock that
/// protects an unpacked image.
class Rootfs {
public:
    /// The directory for config.json: the root of the container's own ram filesystem (mode 0755, owned by the
    /// starter).
    const std::string& bundleDir() const noexcept { return bundle; }
    /// `root.path` of config.json, relative to bundleDir().
    const std::string& rootFolder() const noexcept { return folder; }
    std::string rootPath() const { return bundle + '/' + folder; }
    /// The root directory of the container (O_PATH).
    int rootFd() const noexcept { return root.get(); }
    /// Its own /dev (O_PATH), which nobody but root can change, and on which nothing is mounted.
    int devFd() const noexcept { return dev.get(); }
    /// Where the program starts: the plan's working directory, or "/" if the image's is closed to the user.
    const std::string& workdir() const noexcept { return directory; }
    /// From now on nothing can be written to it, except to what is mounted there. Throws Error.
    void makeReadonly() const;
    /// Bytes that its writable layer takes; 0 if unknown.
    std::uint64_t bytesWritten() const noexcept;
    /// One rule for each device of the plan, in its order.
    const std::vector<oci::RuntimeDeviceRule>& devices() const noexcept { return deviceRules; }
    /// Call this if somebody else reaped a child, because its pid may be reused. Returns a description of
    /// what the child provided; "" for an unknown pid.
    std::string_view forgetHelper(pid_t pid) noexcept;
    /// Children that serve other containers, too, and may outlive this one.
    std::vector<pid_t> sharedChildren() const;
    /// The servers of other containers that this one uses.
    std::vector<ForeignServer> foreignServers() const;

private:
    friend Rootfs buildRootfs(const RootfsRequest& request);

    std::string bundle;
    std::string folder;
    std::string directory;
    UniqueFd root;
    UniqueFd dev;
    std::vector<oci::RuntimeDeviceRule> deviceRules;
    std::vector<MountedImage> images;  ///< the container's own, and squashfs files that are mounted in it
    Child overlayHelper;
};

/// Binds a program of the node (an open descriptor) read-only into the container. With `label`, the SELinux
/// label of the container's files, copies it instead, because a bound file cannot get a label. `dev`: the
/// container's own /dev; `path`: a new name directly in it, as the container sees it. Throws Error if the
/// name is taken: root must not write to a file that the user has mounted there.
void bringProgram(int program, int dev, const std::string& path, const std::optional<std::string>& label);

/// Builds the container's root filesystem below `bundleDir` (reference documentation, "Root filesystem" and
/// "Bind mounts"): a ram filesystem; the image and a writable overlay on it, nosuid and nodev; /dev; the
/// files in /etc; init; the plan's mounts and devices in their order; the working directory.
///
/// Call it in the container's own mount namespace with slave mounts (rootless: in a user namespace, too), as
/// root, single-threaded, with umask 022 and /proc mounted. Opens the plan's host paths as the caller, and
/// resolves all container paths inside the container's root. Throws Error with the documented messages;
/// completed mounts go away with the namespace.
Rootfs buildRootfs(const RootfsRequest& request);

}  // namespace sarus::starter
