#pragma once

#include <string>

#include "base/unique_fd.hpp"

namespace sarus::squashfs {

/// A FUSE mount that this process made.
struct FuseMount {
    UniqueFd device;
    /// fusermount3 removes the mount when this is closed, also by the end of the process. Invalid if this
    /// process mounted by itself, and has to unmount by itself.
    UniqueFd fusermount;
};

/// Mounts on a directory: read-only, nosuid, nodev, with the kernel checking permissions. By mount(2), or by
/// fusermount3 where that is not permitted. Throws Error.
FuseMount mountFuse(const std::string& mountPoint, bool allowOther);

}  // namespace sarus::squashfs
