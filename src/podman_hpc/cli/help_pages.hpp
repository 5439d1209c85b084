#pragma once

#include <string>
#include <vector>

#include "podman_hpc/config/settings.hpp"
#include "podman_hpc/modules/module.hpp"

namespace sarus::podman_hpc {

/// Podman's help page for us: our name, and the options of the modules in front of its own.
std::string podmanHelpPage(const std::string& page, const std::vector<Module>& modules);

/// Prints Podman's page of this command. Returns Podman's exit status.
int printPodmanHelp(const Settings& settings, const std::vector<std::string>& command,
                    const std::vector<Module>& modules);

}  // namespace sarus::podman_hpc
