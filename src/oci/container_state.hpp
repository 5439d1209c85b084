#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <string_view>

namespace sarus::oci {

/// Where a container is in its life. Runtimes do not agree on the word for the time of the hooks which run before the
/// container's program: runc says "creating", crun "created".
enum class ContainerStatus { unknown, creating, created, running, stopped };

/// The state that an OCI runtime or Podman passes to a hook on standard input (runtime-spec, runtime.md, "State").
struct ContainerState {
    std::string ociVersion;
    std::string id;
    ContainerStatus status = ContainerStatus::unknown;
    /// The container's first process as seen by the runtime; 0 if there is none (poststop) or if the runtime does not tell.
    /// runc gives 1 to createContainer hooks of containers which have their own pid namespace: see hooks/kit/namespaces.hpp.
    pid_t pid = 0;
    std::string bundle;  ///< absolute, or empty if unknown; crun may say "/", which is wrong
    std::string root;    ///< absolute path of the root filesystem; only crun tells (not always), else empty
    std::map<std::string, std::string> annotations;  ///< values which are not strings are left out
};

/// Reads a state. Keys which are not known are ignored, and every key may be missing or null; `bundlePath` is accepted for
/// `bundle`. Throws Error if the text is not one JSON object or if a key which is present has the wrong type.
ContainerState parseContainerState(std::string_view json);

}  // namespace sarus::oci
