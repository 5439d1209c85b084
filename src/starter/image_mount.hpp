#pragma once

#include <optional>
#include <string>

#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "engine/site_config.hpp"
#include "starter/credentials.hpp"

namespace sarus::starter {

/// Keeps alive what serves a mounted image: nothing for a kernel mount, squashfuse, or the lock on an unpacked copy.
struct MountedImage {
    Child helper;
    UniqueFd lock;
};

struct ImageMountRequest {
    int imageFd = -1;
    std::string imagePath;  ///< for messages only
    engine::ImageMountPolicy policy = engine::ImageMountPolicy::kernel;
    std::string tempDir;           ///< for the unpacked copies of a rootless starter
    std::string imageBuilderPath;  ///< absolute path of sarus-image-builder
    std::optional<std::string> label =
        std::nullopt;    ///< the SELinux label of all files of the image, where the mount is made with privileges
    std::string target;  ///< directory on which the image appears: read-only, nosuid, nodev
    /// The mount point that holds `target` and all that becomes of the container: squashfuse, which the user can look into, does
    /// not see it. "": none
    std::string bundleDir{};
};

/// Makes a squashfs image visible on a directory. Privileged: by the kernel through a loop device shared with the node's other
/// containers of the same file, or through squashfuse, as the policy says. Rootless: through squashfuse; where neither it nor
/// /dev/fuse can be used, by a private unpacked copy below tempDir. Throws Error for anything that is not a sound image.
MountedImage mountImage(const ImageMountRequest& request, const Credentials& credentials);

/// "kernel-for-root-owned": a regular file on the way to which root owns everything and nobody else can write, as this mount
/// namespace shows it, and not on a FUSE filesystem.
bool isRootOwnedImage(int imageFd);

}  // namespace sarus::starter
