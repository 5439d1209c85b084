#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::podman_hpc {

/// A running container's namespaces that differ from ours, and its config.json, as descriptors: they stay
/// those of this container whatever its process ids are used for later. Not the cgroup: tasks stay in that of
/// their step.
class ContainerEntry {
public:
    /// `pid`: the container's first process; `conmon`: its parent, whose arguments name the bundle. nullopt
    /// if this is not what they are, or if only the OCI runtime can start a process there.
    static std::optional<ContainerEntry> of(pid_t pid, pid_t conmon);

    /// What was sent with kinds() and descriptors().
    ContainerEntry(std::string theKinds, std::vector<UniqueFd> theFds)
        : letters(std::move(theKinds)), fds(std::move(theFds)) {}

    /// A letter for each descriptor: U user (from the outermost to the container's), m mount, p pid, i ipc,
    /// n network, u uts, c config.json, d the container's first process (pidfd; none before Linux 5.3).
    const std::string& kinds() const { return letters; }
    std::vector<int> descriptors() const;

    std::string config() const;

    /// Whether the first process has ended, or does within a moment.
    bool hasEnded() const;

    /// Moves this process into the namespaces; children will be in the pid namespace. Returns an errno value,
    /// or 0. Does not allocate.
    int enter() const;

private:
    ContainerEntry() = default;
    void add(char kind, UniqueFd fd);
    int find(char kind) const;
    bool addUserNamespaces(const std::string& directory);

    std::string letters{};
    std::vector<UniqueFd> fds{};
};

}  // namespace sarus::podman_hpc
