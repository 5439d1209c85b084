#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "oci/bundle_config.hpp"
#include "oci/container_state.hpp"

namespace sarus::hooks {

/// What a hook knows about the container that it was started for: the OCI state, the bundle's config.json and the root
/// filesystem. Everything inside the root filesystem is reached through the descriptor `rootfs()`, never by a path of the host.
class HookContext {
public:
    /// Reads the state from `stateFd` to its end (at most 16 MiB) and finds config.json: in the state's bundle or, where the
    /// runtime does not give a usable one (crun may say "/"), in the place beside `root` where Podman keeps it. A state with a
    /// `root` and without any config.json is accepted; then config() throws.
    static HookContext read(int stateFd);

    const oci::ContainerState& state() const noexcept { return containerState; }
    bool hasConfig() const noexcept { return bundleConfig.has_value(); }
    /// Throws Error if config.json was not found.
    const oci::BundleConfig& config() const;
    /// The directory where config.json was found; the state's bundle if none was.
    const std::string& bundle() const noexcept { return bundlePath; }

    /// A variable of the container's process.
    std::optional<std::string> containerVariable(std::string_view name) const;
    /// The state's annotations, and below them those of config.json.
    std::optional<std::string> annotation(std::string_view key) const;

    /// The path of the root filesystem in the mount namespace where the container is prepared (not resolved).
    std::string rootfsPath() const;
    /// Enters the container's mount namespace if necessary and opens the root filesystem (O_PATH), once; the descriptor stays the
    /// context's. Throws Error, also if the root filesystem is this process's own `/`: then the hook would change the host.
    int rootfs();

private:
    HookContext() = default;
    void findConfig();

    oci::ContainerState containerState;
    std::optional<oci::BundleConfig> bundleConfig;
    std::map<std::string, std::string> annotations;
    std::string bundlePath;
    UniqueFd root;
};

}  // namespace sarus::hooks
