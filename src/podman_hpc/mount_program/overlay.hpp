#pragma once

#include "podman_hpc/mount_program/request.hpp"
#include "podman_hpc/mount_program/squash_layer.hpp"

namespace sarus::podman_hpc {

/// The program that mounts overlays without squash files: $FUSE_OVERLAYFS_BIN, or fuse-overlayfs.
std::string fuseOverlayfs();

/// Mounts the overlay on the target. All that is mounted below it is visible nowhere and ends with it,
/// whatever is killed: the kernel's overlay holds the squash mount; or fuse-overlayfs has it in a mount
/// namespace of its own, which ends with that process, which ends with its mount. Throws Error.
void mountWithSquash(OverlayRequest request, const SquashLayer& layer);

/// Others than the owner must be able to enter the root directory of a container, as the reference ensures.
void openToAll(const std::string& upperDirectory);

}  // namespace sarus::podman_hpc
