#pragma once

#include <sys/types.h>

namespace sarus::podman_hpc {

/// Moves this process into the cgroups of another one, where it may. Keeps all others.
void joinCgroupsOf(pid_t pid);

}  // namespace sarus::podman_hpc
