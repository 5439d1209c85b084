#pragma once

#include <string>

#include "base/subprocess.hpp"
#include "starter/credentials.hpp"
#include "starter/image_mount.hpp"

namespace sarus::starter {

struct FuseMount {
    Child server;        ///< serves the mount; must live as long as it is used
    std::string whyNot;  ///< if there is no server: what this node lacks
    bool mounted = false;
};

/// Mounts a squashfs image through squashfuse_ll or squashfuse on its target: read-only, nosuid, nodev. The server
/// runs with the caller's rights and no_new_privs, in a session (no signals of the terminal) and a mount namespace of its own (it
/// does not keep the container's namespace alive, and does not show the bundle to the caller), and is killed with this process.
/// Ready when the function returns.
///
/// In a user namespace FUSE cannot have a label, and the kernel gives that of its policy.
/// Rootless: every file appears to belong to the caller, the only id that the user namespace knows.
/// A node which lacks squashfuse or a usable /dev/fuse gives `whyNot`; a bad image gives an Error with squashfuse's own words.
FuseMount mountThroughSquashfuse(const ImageMountRequest& request, const Credentials& credentials);

}  // namespace sarus::starter
