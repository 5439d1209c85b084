#pragma once

#include <optional>
#include <string>

#include "base/unique_fd.hpp"

namespace sarus::node {

struct FuseDevice {
    UniqueFd fd;
    std::string whyNot;  ///< if this process cannot open /dev/fuse
};

FuseDevice openFuseDevice();

/// The path of fuse-overlayfs: that of the installation in the directory `prefix`, as the standalone archive
/// has it, else that of the system.
std::string fuseOverlayfs(const std::string& prefix);

/// The same, if it can be executed and this process can open /dev/fuse.
std::optional<std::string> usableFuseOverlayfs(const std::string& prefix);

}  // namespace sarus::node
