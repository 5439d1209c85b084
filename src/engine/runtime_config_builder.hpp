#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/container_plan.hpp"
#include "engine/site_config.hpp"
#include "oci/runtime/runtime_config.hpp"

namespace sarus::engine {

enum class OciRuntime { crun, runc };

/// The reader of config.json and its rights, which change how the same container is described.
struct RuntimeDialect {
    OciRuntime runtime = OciRuntime::crun;
    bool privileged = true;    ///< false: the runtime runs as id 0 of the starter's user namespace
    bool createsUser = false;  ///< for an exec command: whether sarus-enter created the container's user
};

/// What is known only after the root filesystem was built.
struct RuntimeInputs {
    /// One per planned device: type and numbers of the opened node.
    std::vector<oci::RuntimeDeviceRule> deviceRules;
    std::optional<std::string> seccompProfile;  ///< the text of the site's profile
    /// For runc; absolute on cgroup v2, otherwise below its own cgroups.
    std::optional<std::string> cgroupsPath;
    /// The caller's limits, which the starter may have raised for itself.
    std::vector<oci::RuntimeRlimit> rlimits;
    /// The options of the host's /proc that hide processes from users: "hidepid=2", "gid=7".
    std::vector<std::string> hostProcOptions;
    /// The existing hiddenPaths() and readonlyPaths(); true: a directory.
    std::map<std::string, bool> kernelPaths{};
    /// Rootless: an existing one for the container, mapped like a new one.
    std::optional<std::string> userNamespace{};
    std::optional<oci::RuntimeConsoleSize> consoleSize{};  ///< of a container with a terminal
    std::optional<int> payloadNamespace{};                 ///< descriptor of the one that sarus-enter enters
    std::vector<int> ignoredSignals{};                     ///< which the command ignores from its start
    std::optional<int> oomScore{};                         ///< oom_score_adj of the command (proc(5))
    bool rootIsReadonly = false;  ///< before the runtime starts, so that it need not make it so
    /// The sizes of the ranges of ids that the starter's user namespace has, from 0 on.
    std::vector<std::uint32_t> uids{1};
    std::vector<std::uint32_t> gids{1};
};

/// Parts of the kernel's filesystems that a container has but cannot read, or cannot change.
const std::vector<std::string>& hiddenPaths();
const std::vector<std::string>& readonlyPaths();

/// Whether sarus-enter must create the container's user inside, as user 0 with CAP_SETFCAP. crun can map the
/// caller's id directly; runc requires id 0. So do createContainer hooks with either: as another user they
/// would lose their capabilities in execve, and could not mount anything. Not if the caller is root in the
/// container anyway.
bool createsUserInside(const ContainerPlan& plan, const RuntimeDialect& dialect);

/// The config.json of the planned container. Pure. Omits the plan's mounts and devices, which the starter
/// performs before the runtime starts, and the hooks, which the starter wraps. The program is sarus-enter,
/// which the starter brings (hook_contracts/enter_call.hpp), and becomes the plan's. Descriptors are passed
/// with the runtime's option --preserve-fds.
oci::RuntimeConfig makeRuntimeConfig(const ContainerPlan& plan, const SiteConfig& config,
                                     const RuntimeDialect& dialect, const RuntimeInputs& inputs = {});

}  // namespace sarus::engine
