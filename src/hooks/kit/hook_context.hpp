#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "container_root/container_view.hpp"
#include "oci/runtime/bundle_config.hpp"
#include "oci/runtime/container_state.hpp"

namespace sarus::hooks {

/// A hook's information about its container: the OCI state, the bundle's config.json and the root filesystem.
/// Access to the root filesystem always goes through the descriptor `rootfs()`, never through a host path.
class HookContext {
public:
    /// Reads the state from `stateFd` to its end (at most 16 MiB) and finds config.json: in the state's
    /// bundle or, if that is unusable (crun may say "/"), at the place beside `root` where Podman keeps it.
    /// Accepts a state with a `root` but no config.json; then config() throws.
    static HookContext read(int stateFd);
    /// A fictitious container with this root filesystem and these variables NAME=VALUE, to explain a hook.
    static HookContext ofRoot(const std::string& path, const std::vector<std::string>& variables);
    /// A container before its creation, whose root filesystem is there. `bundle`: of a relative `root.path`;
    /// may be empty.
    static HookContext ofConfiguration(oci::BundleConfig config, std::string bundle);
    HookContext(HookContext&&) noexcept;
    HookContext& operator=(HookContext&&) noexcept;
    ~HookContext();

    const oci::ContainerState& state() const noexcept { return containerState; }
    bool hasConfig() const noexcept { return bundleConfig.has_value(); }
    /// Throws Error if config.json was not found.
    const oci::BundleConfig& config() const;
    /// The same, to be changed; the context must not be used any more.
    oci::BundleConfig takeConfig() && { return std::move(*bundleConfig); }
    /// The directory where config.json was found; the state's bundle if none was.
    const std::string& bundle() const noexcept { return bundlePath; }

    /// A variable of the container's process. An image can set it, too.
    std::optional<std::string> containerVariable(std::string_view name) const;
    /// The same, but nullopt if the image may have set it: for what an image must not choose.
    /// `name`: one of hook_contracts::isCallersVariable().
    std::optional<std::string> callersVariable(std::string_view name) const;
    /// The state's annotations, which override those of config.json. nullopt for one of the caller's
    /// (hook_contracts/callers_settings.hpp) that the image may have set.
    std::optional<std::string> annotation(std::string_view key) const;

    /// From now on, the image may have set annotations and variables of the caller's. Returns the first such
    /// annotation, or "".
    std::string distrust();

    /// The path of the root filesystem in the mount namespace where the container is prepared (not resolved).
    std::string rootfsPath() const;
    /// Enters the container's mount namespace if necessary and opens the root filesystem (O_PATH), once; the
    /// context keeps the descriptor. From then on the kit accesses the container's files as its user
    /// (ContainerView). Throws Error if the root filesystem is this process's own `/`, because the hook would
    /// change the host, and if the container has already started, because its user could redirect the path.
    int rootfs();
    /// From now on, rootfs() looks for the root filesystem where this process is, and enters no namespace.
    void stayOutside() noexcept { entersNamespace = false; }

private:
    HookContext();
    void findConfig();

    oci::ContainerState containerState;
    std::optional<oci::BundleConfig> bundleConfig;
    std::map<std::string, std::string> annotations;
    std::string bundlePath;
    UniqueFd root;
    bool entersNamespace = true;
    bool isTrusted = true;
    std::unique_ptr<container_root::ContainerViewer> viewer;
};

}  // namespace sarus::hooks
