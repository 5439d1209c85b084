#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/container_plan.hpp"
#include "engine/site_config.hpp"
#include "oci/runtime_config.hpp"

namespace sarus::engine {

enum class OciRuntime { crun, runc };

/// Who reads the config.json, and with which rights: what the same container needs to be told differently.
struct RuntimeDialect {
    OciRuntime runtime = OciRuntime::crun;
    bool privileged = true;  ///< false: the runtime runs as id 0 of the starter's user namespace
    /// Only where needsIdMapHelper(): path inside the container of the static helper which becomes args[0]. It is called as
    /// `<helper> [--enter=FD] <uid> <gid> <command> [arguments]`, as user 0 with CAP_SETFCAP; it enters the user namespace of
    /// that descriptor or makes one that maps the caller's ids to 0, and executes the command (searched in PATH if it has no
    /// slash).
    std::string idMapHelper;
    bool madeWithHelper = false;  ///< for a command beside a container: whether that one's user was made by the helper
};

/// What became known while the root filesystem was being made.
struct RuntimeInputs {
    std::vector<oci::RuntimeDeviceRule> deviceRules;  ///< one a planned device: type and numbers of the opened node
    std::optional<std::string> seccompProfile;        ///< the text of the site's profile
    std::optional<std::string> cgroupsPath;           ///< runc on cgroup v2: absolute, below the caller's own cgroup
    std::vector<oci::RuntimeRlimit> rlimits;          ///< the caller's limits, which the starter may have raised for itself
    std::vector<std::string> hostProcOptions;         ///< what the host's /proc hides from users: "hidepid=2", "gid=7"
    bool hostHasMqueue = false;                       ///< /dev/mqueue is a directory on the host
    std::optional<std::string> userNamespace{};       ///< rootless: an existing one for the container, mapped like a new one
    std::optional<int> payloadNamespace{};            ///< the descriptor of the one which the id-map helper enters
};

/// Whether the container's user has to be made by a helper inside. crun can map the caller's id directly, runc has to have an id
/// 0; and so have hooks of the stage createContainer, with either: as another user they would lose their capabilities when they
/// are executed, and could mount nothing.
bool needsIdMapHelper(const ContainerPlan& plan, const RuntimeDialect& dialect);

/// The config.json of the planned container. Pure. Mounts and devices of the plan are not in it: the starter performs those in
/// the root filesystem before the runtime starts. Descriptors are passed with the runtime's option --preserve-fds.
oci::RuntimeConfig makeRuntimeConfig(const ContainerPlan& plan, const SiteConfig& config, const RuntimeDialect& dialect,
                                     const RuntimeInputs& inputs = {});

}  // namespace sarus::engine
