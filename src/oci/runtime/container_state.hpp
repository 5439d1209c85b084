#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace sarus::oci {

/// The lifecycle state of a container. Runtimes use different words while hooks run before the container's
/// program: runc says "creating", crun "created". At poststart runc says "created", crun "running".
enum class ContainerStatus { unknown, creating, created, running, stopped };

/// The state that an OCI runtime or Podman passes to a hook on standard input (runtime-spec, runtime.md,
/// "State").
struct ContainerState {
    std::string ociVersion;
    std::string id;
    ContainerStatus status = ContainerStatus::unknown;
    /// The container's first process as seen by the runtime; 0 if there is none (poststop) or the runtime
    /// does not set it. runc passes 1 to createContainer hooks of containers with their own pid namespace:
    /// see hooks/kit/container_namespaces.hpp.
    pid_t pid = 0;
    std::string bundle;      ///< absolute, or empty if unknown; crun may say "/", which is wrong
    bool tellsRoot = false;  ///< whether there is a key `root`, as in the states of crun
    /// Absolute path of the root filesystem; only crun sets it (not always), otherwise empty.
    std::string root;
    std::map<std::string, std::string> annotations;  ///< only string values
};

/// Reads a state. Ignores unknown keys; every key may be missing or null; `bundlePath` is accepted for
/// `bundle`. Throws Error if the text is not one JSON object or a key has the wrong type.
ContainerState parseContainerState(std::string_view json);

/// Whether the text is a state, and not the config.json that a hook gets at the stage precreate.
bool isContainerState(std::string_view json);

/// The stage at which a hook got this state, if it is one after the start of the container's program:
/// "poststart" or "poststop"; else nullopt. From the start on, nothing in the container's namespaces is to be
/// trusted.
std::optional<std::string_view> stageAfterStart(const ContainerState& state);

}  // namespace sarus::oci
