#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "starter/credentials.hpp"
#include "starter/process_tree.hpp"
#include "starter/runtime.hpp"

namespace sarus::starter {

/// What an OCI runtime has written about the first process of a container.
struct RuntimeState {
    pid_t pid = 0;
    std::uint64_t started = 0;           ///< as Process::started()
    std::vector<std::string> cgroups{};  ///< directories of those which the runtime made
};

/// The path of that file.
std::string runtimeStateFile(engine::OciRuntime runtime, const std::string& runtimeRoot, const std::string& containerName);

/// Reads the state file of a runtime (crun: `status`, runc: `state.json`). Throws Error.
RuntimeState parseRuntimeState(std::string_view json, engine::OciRuntime runtime);

/// The state file with another process in the place of the container's first one. Throws Error.
std::string withOtherProcess(std::string_view json, engine::OciRuntime runtime, pid_t pid, std::uint64_t started);

/// A running container of the caller, held so that its own processes cannot exchange what is being entered.
///
/// An OCI runtime looks for a container's namespaces by the number of its first process, which is the user's: at that very moment
/// it could move to namespaces of its own making, with files of its choice in the place of /proc and /dev, and wait there for a
/// process of root. Therefore the namespaces are opened here, once; they are accepted only if the user did not make them (their
/// owner is the starter's user namespace; rootless: the container's); and an anchor, a process of the starter's which nobody can
/// touch, enters them. The runtime is shown the anchor.
class RunningContainer {
public:
    /// nullopt if there is no running container of that name, or none whose own program runs already. Throws Error if it cannot
    /// be entered safely.
    static std::optional<RunningContainer> open(const Credentials& credentials, engine::OciRuntime runtime,
                                                const std::string& runtimeRoot, const std::string& containerName);

    /// The user namespace that the id-map helper has made or entered in the container; -1 if it has not.
    int payloadNamespace() const noexcept { return programNamespace.get(); }
    const Process& firstProcess() const noexcept { return first; }
    /// The text of its /proc/<pid>/cgroup.
    const std::string& cgroups() const noexcept { return cgroupText; }

    /// Gives this process a mount namespace of its own; a rootless one enters the user namespace of the container's starter.
    void enterStarterNamespaces(Credentials& credentials) const;

    /// Starts the anchor, and writes below `directory` (existing, empty, private) the runtime's state of the container with the
    /// anchor in it. The anchor ends with the returned object.
    Child anchor(const std::string& runtimeRoot, const std::string& directory) const;

private:
    RunningContainer(Process process, engine::OciRuntime kind, std::string container)
        : first(process), runtime(kind), name(std::move(container)) {}

    void openNamespaces(bool privileged, int processDirectory);
    void checkOwner(int namespaceFd, int owner) const;

    Process first;
    engine::OciRuntime runtime;
    std::string name;
    std::string cgroupText;
    UniqueFd mountNamespace;
    UniqueFd pidNamespace;      ///< empty if it is the node's
    UniqueFd starterNamespace;  ///< rootless: the user namespace of its starter
    UniqueFd userNamespace;     ///< rootless: the container's own
    UniqueFd programNamespace;  ///< rootless: the one inside of it on the way to the first process, if there is one
};

}  // namespace sarus::starter
