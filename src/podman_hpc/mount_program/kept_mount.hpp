#pragma once

#include <string>

#include "base/unique_fd.hpp"

namespace sarus::podman_hpc {

/// A process keeps the mount of this directory for $PODMANHPC_MOUNT_KEEP seconds. It holds nothing else but
/// the mount namespace of the caller. If it is killed, or cannot be made, only the next container starts
/// slower.
void keepMount(const UniqueFd& directory);

}  // namespace sarus::podman_hpc
