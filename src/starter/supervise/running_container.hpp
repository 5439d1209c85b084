#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process_tree.hpp"
#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/runtime/runtime.hpp"

namespace sarus::starter {

/// What an OCI runtime has recorded about a container and its first process.
struct RuntimeState {
    pid_t pid = 0;
    std::uint64_t started = 0;           ///< as Process::started()
    std::vector<std::string> cgroups{};  ///< directories of those that the runtime created
    std::string bundle{};
    std::string created{};  ///< RFC 3339
};

/// Path of the runtime's state file.
std::string runtimeStateFile(engine::OciRuntime runtime, const std::string& runtimeRoot,
                             const std::string& containerName);

/// Reads the state file of a runtime (crun: `status`, runc: `state.json`). Throws Error.
RuntimeState parseRuntimeState(std::string_view json, engine::OciRuntime runtime);

/// The state file with another process in place of the container's first one, and without the cgroups that
/// commands enter if they `keepCgroups`. Throws Error.
std::string withOtherProcess(std::string_view json, engine::OciRuntime runtime, pid_t pid,
                             std::uint64_t started, bool keepCgroups = false);

/// Whether the process whose /proc/PID/status this is has the user's identity, which a runtime gives it last,
/// when everything else in the container is ready.
bool isPayload(std::string_view status, uid_t user);

/// A running container of the caller, held so that its own processes cannot replace what is being entered.
///
/// An OCI runtime finds a container's namespaces through the pid of its first process, which belongs to the
/// user. At that moment the process could move to namespaces of its own, with files of its choice in place of
/// /proc and /dev, and wait there for a process of root. So this class opens the namespaces once. It accepts
/// them only if the user did not create them (their owner is the starter's user namespace; rootless: the
/// container's). An anchor, a process of the starter that nobody can tamper with, enters them, and the
/// runtime sees only the anchor.
class RunningContainer {
public:
    /// nullopt if there is no running container of that name, or its own program does not run yet. Throws
    /// Error if it cannot be entered safely.
    static std::optional<RunningContainer> open(const Credentials& credentials, engine::OciRuntime runtime,
                                                const std::string& runtimeRoot,
                                                const std::string& containerName);

    /// The user namespace that sarus-enter created or entered in the container; -1 if it has not yet.
    int payloadNamespace() const noexcept { return programNamespace.get(); }
    const Process& firstProcess() const noexcept { return first; }
    /// The text of its /proc/<pid>/cgroup.
    const std::string& cgroups() const noexcept { return cgroupText; }

    /// Gives this process a mount namespace of its own. A rootless process enters the user namespace of the
    /// container's starter.
    void enterStarterNamespaces(Credentials& credentials) const;

    /// Starts the anchor, and writes the runtime's state of the container, with the anchor in it, below
    /// `directory` (exists, empty, private). The anchor ends with the returned object.
    Child anchor(const std::string& runtimeRoot, const std::string& directory, bool keepCgroups) const;

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
    UniqueFd pidNamespace;                  ///< empty if it is the node's
    std::vector<UniqueFd> otherNamespaces;  ///< of network, IPC and names: those that are not the node's
    UniqueFd starterNamespace;              ///< rootless: the user namespace of its starter
    UniqueFd userNamespace;                 ///< rootless: the container's own
    UniqueFd programNamespace;  ///< rootless: the one inside it that leads to the first process, if any
};

}  // namespace sarus::starter
