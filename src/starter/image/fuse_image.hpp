#pragma once

#include <string>

#include "base/subprocess.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/image/image_mount.hpp"

namespace sarus::starter {

struct FuseImage {
    MountedImage image{};  ///< must outlive the mount's use
    std::string whyNot{};  ///< if not mounted: what this node lacks
    bool joined = false;   ///< served by another container's server
};

/// Mounts a squashfs image on its target through sarus-squashfs: read-only, nosuid, nodev. The server runs
/// with the caller's rights and no_new_privs, in a session of its own (no terminal signals) and a mount
/// namespace of its own (so it neither keeps the container's namespace alive nor shows the bundle to the
/// caller). The mount is ready when the function returns.
///
/// With a sharing directory, the caller's containers of one image share the mount and the server
/// (shared_image.hpp). Otherwise the server is killed with this process.
///
/// In a user namespace FUSE cannot have a label; the kernel applies its policy's default. Rootless: every
/// file appears to belong to the caller, the only id in the user namespace. Returns `whyNot` if the node
/// lacks a usable /dev/fuse; throws Error with the server's output for a bad image.
FuseImage mountThroughFuse(const ImageMountRequest& request, const Credentials& credentials);

}  // namespace sarus::starter
