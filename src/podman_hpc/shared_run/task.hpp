#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.hpp"
#include "podman_hpc/shared_run/container_entry.hpp"
#include "podman_hpc/shared_run/words.hpp"

namespace sarus::podman_hpc {

/// Starts the command in the container as `podman exec` does with these options, as a child of this process,
/// in this process's session, process group and cgroup, with its CPU affinity and streams. The child dies
/// with this process and blocks only `signals`. nullopt if the kernel refuses to enter the container. Throws
/// Error. The command is executed by a sealed copy of `pauseProgram`: a script whose interpreter is
/// /proc/self/exe would otherwise get hold of this program.
std::optional<Child> startTask(const ContainerEntry& entry, const std::string& pauseProgram,
                               const ExecOptions& options, const std::vector<std::string>& command,
                               const sigset_t& signals);

}  // namespace sarus::podman_hpc
