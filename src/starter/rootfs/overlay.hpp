#pragma once

#include <optional>
#include <string>

#include "base/subprocess.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// The directories of an overlay, relative to the absolute path `base`: relative paths need no escaping.
struct OverlayDirectories {
    std::string base;
    std::string lower;
    std::string upper;
    std::string work;
    std::string target;
};

/// Mounts the overlay on `target`, nosuid and nodev. Does not follow redirects and metadata-only copies
/// claimed by an image. Rootless: stores attributes in user.* xattrs. If the upper filesystem has none (tmpfs
/// before Linux 6.6), uses and returns fuse-overlayfs if that (node::usableFuseOverlayfs(`prefix`)) and
/// /dev/fuse are usable; otherwise the kernel mounts it with a limitation: directories of the image cannot be
/// removed and created again. `label`: SELinux label of all its files; the kernel does not accept one from
/// fuse-overlayfs. Changes the working directory to "/". Throws Error.
Child mountOverlay(const OverlayDirectories& directories, const std::string& prefix,
                   const std::optional<std::string>& label, const Credentials& credentials);

/// Only the fallback.
Child mountFuseOverlay(const OverlayDirectories& directories, const std::string& program,
                       const Credentials& credentials);

}  // namespace sarus::starter
