#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "engine/container_plan.hpp"
#include "engine/site_config.hpp"
#include "starter/credentials.hpp"
#include "starter/image_mount.hpp"

namespace sarus::starter {

/// A device which the container may use: becomes a rule of the device cgroup.
struct DeviceRule {
    char type = 'c';  ///< 'c' or 'b'
    unsigned major = 0;
    unsigned minor = 0;
    std::string access;  ///< a combination of r, w and m
};

/// A line for the caller in the container's passwd and group, used only where the installation's files have none for his ids.
struct CallerAccount {
    std::string name;   ///< anything but [A-Za-z0-9_.-] makes it "user<uid>"
    std::string group;  ///< the same rule: "group<gid>"
    std::string home;   ///< absolute, else "/"
};

/// What buildRootfs() works on.
struct RootfsRequest {
    const engine::ContainerPlan& plan;
    const engine::SiteConfig& config;
    const Credentials& credentials;
    int imageFd = -1;              ///< O_RDONLY, opened with the caller's rights
    std::string imagePath;         ///< for messages only
    std::string bundleDir;         ///< existing directory which nobody but root (rootless: the caller) can change
    std::string imageBuilderPath;  ///< absolute path of sarus-image-builder, for rootless nodes without FUSE
    std::optional<CallerAccount> account{};
};

/// A finished root filesystem. It lives in the mount namespace; the object keeps what must stay alive as long as the container:
/// the FUSE server of the image and of the overlay (children of this process: do not reap them with waitpid(-1) before the
/// container has ended, or call forgetHelper), and the lock which protects an unpacked image.
class Rootfs {
public:
    /// The directory for config.json: root of a ram filesystem of the container's own (mode 0755, owned by the starter).
    const std::string& bundleDir() const noexcept { return bundle; }
    /// `root.path` of config.json, relative to bundleDir().
    const std::string& rootFolder() const noexcept { return folder; }
    /// The root directory of the container (O_PATH).
    int rootFd() const noexcept { return root.get(); }
    /// One rule for each device of the plan, in its order.
    const std::vector<DeviceRule>& devices() const noexcept { return deviceRules; }
    /// To be called if somebody else reaped a child: its pid is never used again. Unknown pids are ignored.
    void forgetHelper(pid_t pid) noexcept;

private:
    friend Rootfs buildRootfs(const RootfsRequest& request);

    std::string bundle;
    std::string folder;
    UniqueFd root;
    std::vector<DeviceRule> deviceRules;
    MountedImage image;
    Child overlayHelper;
};

/// Makes a program of the node (an open descriptor) appear in the container: bound read-only. With `label`, the SELinux label of
/// the container's files, which a bound file cannot get, it is a copy. `path` is resolved with the directory `root` as its limit;
/// it lies below /dev of the container.
void bringProgram(int program, int root, const std::string& path, const std::optional<std::string>& label);

/// Builds the container's root filesystem below `bundleDir` (reference documentation, "Root filesystem" and "Bind mounts"): a ram
/// filesystem; the image and a writable overlay on it, nosuid and nodev; /dev; the files in /etc; init; the plan's mounts and
/// devices in their order; the working directory.
///
/// To be called in a mount namespace of the container's own whose mounts are slaves (rootless: in a user namespace, too), as
/// root, single-threaded, with umask 022 and /proc mounted. What the plan names by path is opened as the caller; inside the
/// container everything is resolved with its root as the limit. Throws Error with the documented messages; what was mounted until
/// then goes away with the namespace.
Rootfs buildRootfs(const RootfsRequest& request);

}  // namespace sarus::starter
