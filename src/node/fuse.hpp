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

/// The path of fuse-overlayfs, if it is installed and this process can open /dev/fuse.
std::optional<std::string> usableFuseOverlayfs();

}  // namespace sarus::node
