#pragma once

#include <string>
#include <vector>

#include "podman_hpc/cli/call.hpp"
#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

/// Throws Error unless there is a mount program, and the user's own directories for Podman.
void requirePodmanDirectories(const Settings& settings, const Surroundings& from);

/// Runs Podman's `pull`, prints what it prints, and adds the images to the squash store. Returns the exit
/// status. This process has Podman's environment.
int pullAndMigrate(const std::vector<std::string>& arguments, const Call& call, const Settings& settings,
                   const std::string& squashDir, const Surroundings& from);

}  // namespace sarus::podman_hpc
