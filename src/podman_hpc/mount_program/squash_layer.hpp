#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "podman_hpc/mount_program/request.hpp"

namespace sarus::podman_hpc {

/// The squash file of a squashed store: all files of an image.
struct SquashLayer {
    std::size_t position = 0;  ///< of the layer in OverlayRequest::lower; it hides the layers behind it
    std::string path{};
    UniqueFd file{};
    uid_t owner = 0;
    gid_t group = 0;
    /// Only root can change it, and it is not on FUSE, whose server can claim any owner. In a user namespace:
    /// its root.
    bool isRootsOwn = false;
};

/// The topmost layer with a squash file beside its link (`overlay/l/LINK.squash`). A layer can also be named
/// by its directory (`overlay/ID/diff`). nullopt if none has one. Throws Error if one cannot be read or is
/// damaged; a symbolic link is refused, because it could make a program read any file.
std::optional<SquashLayer> findSquashLayer(const OverlayRequest& request);

}  // namespace sarus::podman_hpc
