#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "engine/container_plan.hpp"
#include "engine/site_config.hpp"
#include "oci/runtime/runtime_config.hpp"
#include "starter/entry/entry.hpp"
#include "starter/namespaces/shared_namespaces.hpp"
#include "starter/rootfs/rootfs.hpp"
#include "starter/runtime/runtime.hpp"

namespace sarus::starter {

/// The descriptor number with which the runtime passes the payload's user namespace to sarus-enter: the next
/// one after the container's descriptors.
int payloadNamespaceNumber(const engine::ContainerPlan& plan);

/// The limits as in config.json.
std::vector<oci::RuntimeRlimit> callerLimits(const std::vector<CallerLimit>& limits);

/// The input of config.json.
struct BundleRequest {
    std::vector<CallerLimit> limits;  ///< limits restored for the payload
    const engine::ContainerPlan& plan;
    const engine::SiteConfig& config;
    const Credentials& credentials;
    const RuntimeProgram& runtime;
    const Rootfs& rootfs;
    std::string enterProgram;               ///< host path of sarus-enter
    std::string hookWrapper;                ///< host path of the program that starts the hooks
    const std::vector<std::size_t>& early;  ///< hooks of the plan that config.json does not name
    /// runc's v1 device cgroup, if a hook sets its rules.
    std::optional<std::string> runcDevices;
    const UserNamespaces& userNamespaces;  ///< namespaces that the container shares with others
    std::optional<oci::RuntimeConsoleSize> consoleSize{};  ///< of the container's terminal
    std::optional<int> oomScore{};                         ///< as in engine::RuntimeInputs
    bool rootIsReadonly = false;                           ///< as in engine::RuntimeInputs
};

/// Writes config.json (0600) beside the root filesystem, and provides sarus-enter in the container.
/// Returns the `linux.resources.devices` set by the precreate hooks, if any: crun does not apply them by
/// itself. Throws Error if a hook fails or writes an invalid configuration.
std::vector<oci::RuntimeDeviceRule> writeBundle(const BundleRequest& request);

/// Looks for the payload's program as execvp(3) would, inside the container and with the caller's rights.
/// Throws Error worded like runc's if it is missing. Leaves to the runtime what cannot be decided before the
/// container is complete, and everything if a hook runs before the program, because the hook may provide it.
/// If the program is for another processor, returns what to tell the user should the start fail (it succeeds
/// on a node with an emulator); otherwise "".
std::string checkCommand(const engine::ContainerPlan& plan, int rootfs, const Credentials& credentials);

}  // namespace sarus::starter
