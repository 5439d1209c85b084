#pragma once

#include <optional>
#include <string>

#include "base/subprocess.hpp"
#include "starter/credentials.hpp"

namespace sarus::starter {

struct FuseMount {
    Child server;        ///< serves the mount; must live as long as it is used
    std::string whyNot;  ///< if there is no server: what this node lacks
    bool mounted = false;
};

/// Mounts a squashfs image through squashfuse_ll or squashfuse on the directory `target`: read-only, nosuid, nodev. The server
/// runs with the caller's rights and no_new_privs, in a session (no signals of the terminal) and a mount namespace of its own (it
/// does not keep the container's namespace alive), and is killed with this process. Ready when the function returns.
///
/// `label`: the SELinux label of all files; in a user namespace FUSE cannot have one, and the kernel gives that of its policy.
/// Rootless: every file appears to belong to the caller, the only id that the user namespace knows.
/// A node which lacks squashfuse or a usable /dev/fuse gives `whyNot`; a bad image gives an Error with squashfuse's own words.
FuseMount mountThroughSquashfuse(int imageFd, const std::string& imagePath, const std::string& target,
                                 const std::optional<std::string>& label, const Credentials& credentials);

}  // namespace sarus::starter
