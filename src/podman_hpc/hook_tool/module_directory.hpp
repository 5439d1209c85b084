#pragma once

#include <string>

namespace sarus::podman_hpc {

/// Throws Error if modules of this directory must not count although the container's environment names it,
/// which the image may have written: it lies in a store of containers, or (for root on the node itself) users
/// can change it.
void requireTrustedModules(const std::string& directory);

}  // namespace sarus::podman_hpc
