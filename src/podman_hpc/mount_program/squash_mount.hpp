#pragma once

#include <memory>
#include <string>
#include <vector>

#include "podman_hpc/mount_program/squash_layer.hpp"
#include "served_image/server.hpp"

namespace sarus::podman_hpc {

/// Root of the node, not of a user namespace.
bool isRealRoot();

struct SquashMount {
    std::unique_ptr<served_image::Server> server;  ///< none if the kernel mounted it
    /// Worth keeping: the kernel can give the same filesystem to the next container.
    bool isFirstOfKernel = false;
};

/// Mounts the squash file on a directory of this mount namespace: with the program in $SQUASHFUSE_BIN if it
/// is set; else with the kernel (real root, and a file that only root can change), our FUSE server,
/// squashfuse_ll or squashfuse, the first that can. `hidden`: directories whose mounts the
/// server does not see: it must not keep other containers' files alive, nor its own mount. Throws Error.
SquashMount mountSquash(const SquashLayer& layer, const std::string& directory,
                        const std::vector<std::string>& hidden);

}  // namespace sarus::podman_hpc
