#pragma once

#include <optional>
#include <string>

#include "base/subprocess.hpp"
#include "starter/credentials.hpp"

namespace sarus::starter {

/// The directories of an overlay, all relative to `base`, an absolute path. Being relative they need no escaping.
struct OverlayDirectories {
    std::string base;
    std::string lower;
    std::string upper;
    std::string work;
    std::string target;
};

/// Mounts the overlay on `target`, nosuid and nodev. Redirects and metadata-only copies that an image claims to have are not
/// followed. Rootless: attributes are kept in user.* xattrs. Where the upper filesystem has none (tmpfs before Linux 6.6)
/// fuse-overlayfs does it, if it and /dev/fuse can be used, and is returned; else the kernel does it with the limitation that
/// directories of the image cannot be removed and created again. `label`: the SELinux label of all that is in it; the kernel does
/// not take one from fuse-overlayfs. Changes the working directory to "/". Throws Error.
Child mountOverlay(const OverlayDirectories& directories, const std::optional<std::string>& label,
                   const Credentials& credentials);

/// The fallback alone.
Child mountFuseOverlay(const OverlayDirectories& directories, const std::string& program, const Credentials& credentials);

}  // namespace sarus::starter
