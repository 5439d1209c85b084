#pragma once

#include <string>

namespace sarus::podman_hpc {

/// Throws Error if modules of this directory must not count: it lies in a store of containers, or (for root
/// on the node itself) somebody else can change it. In a user namespace, owners cannot be told apart:
/// podman-hpc has looked at them (config/own_hooks.hpp).
void requireTrustedModules(const std::string& directory);

}  // namespace sarus::podman_hpc
