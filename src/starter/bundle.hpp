#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/container_plan.hpp"
#include "engine/site_config.hpp"
#include "oci/bundle_config.hpp"
#include "oci/runtime_config.hpp"
#include "starter/entry.hpp"
#include "starter/rootfs.hpp"
#include "starter/runtime.hpp"
#include "starter/shared_namespaces.hpp"

namespace sarus::starter {

/// Where the helper of rootless runc stands in a container.
inline constexpr const char* idMapHelperInside = "/dev/.sarus-idmap";

/// The number under which the runtime passes the payload's user namespace on to the helper: after what the container is given.
int payloadNamespaceNumber(const engine::ContainerPlan& plan);

/// The limits in the words of config.json.
std::vector<oci::RuntimeRlimit> callerLimits(const std::vector<CallerLimit>& limits);

/// What config.json is made of.
struct BundleRequest {
    std::vector<CallerLimit> limits;  ///< what the payload gets back
    const engine::ContainerPlan& plan;
    const engine::SiteConfig& config;
    const Credentials& credentials;
    const RuntimeProgram& runtime;
    const Rootfs& rootfs;
    std::string idMapHelper;                 ///< host path of the helper that rootless containers may need inside
    std::string hookWrapper;                 ///< host path of the program that starts the hooks
    std::optional<std::string> runcDevices;  ///< runc's v1 device cgroup, where the rules are a hook's to make
    const UserNamespaces& userNamespaces;    ///< which the container has in common with others
};

/// Writes config.json (0600) beside the root filesystem, and brings the id-map helper into the container where it is needed.
/// Returns what the precreate hooks, if there are any, leave in `linux.resources.devices`: crun does not apply it by itself.
/// Throws Error if a hook fails, or writes what is no configuration.
std::vector<oci::BundleDeviceRule> writeBundle(const BundleRequest& request);

/// What to say, in the words that runc uses, of a command which is not there.
std::string missingCommand(std::string_view command);

/// Looks for the payload's program as execvp(3) would, inside the container and with the caller's rights, and throws an Error in
/// the words that runc uses if it is not there. What cannot be decided before the container is complete is left to the runtime:
/// so is everything if a hook runs before the program, because it may be what provides it.
/// Returns what to tell the user should the start fail, because the program is for other processors; "" if it is not. Where the
/// node has an emulator for them it does not fail.
std::string checkCommand(const engine::ContainerPlan& plan, int rootfs, const Credentials& credentials);

}  // namespace sarus::starter
