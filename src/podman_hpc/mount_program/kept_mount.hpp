#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "podman_hpc/mount_program/squash_layer.hpp"

namespace sarus::podman_hpc {

/// A process keeps the mount of this directory for $PODMANHPC_MOUNT_KEEP seconds. It holds nothing else but
/// the mount namespace of the caller. If it is killed, or cannot be made, only the next container starts
/// slower.
void keepMount(const UniqueFd& directory);

/// One FUSE server for a user's containers of an image. A process keeps its mount in a mount namespace that
/// has no other mount, for $PODMANHPC_MOUNT_KEEP seconds or until the server ends. Others find it by its
/// record lock on a directory, which the kernel releases with it: no file is left behind, whoever is killed.
/// Only processes of one cgroup share: a workload manager ends, stops and suspends all that are in one.
class SharedServer {
public:
    /// `directory`: on this node, and no container can open it. nullopt if the user or a limit of this
    /// process forbids sharing. Throws Error.
    static std::optional<SharedServer> find(const SquashLayer& layer, const std::string& directory);

    /// A detached copy of the mount that is kept; empty if there is none that answers in time.
    UniqueFd join() const;
    /// Keeps a mount, of which `tree` is a detached copy.
    void keep(const UniqueFd& tree, pid_t server) const;

private:
    pid_t keeper() const;
    void becomeKeeper(const UniqueFd& tree, pid_t server) const;

    UniqueFd directory;
    off_t position = 0;  ///< of the lock
    int file = -1;
};

}  // namespace sarus::podman_hpc
