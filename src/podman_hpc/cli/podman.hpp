#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/subprocess.hpp"
#include "podman_hpc/cli/option_table.hpp"
#include "podman_hpc/config/podman_files.hpp"
#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

/// The configured Podman; throws Error if there is none.
const std::string& requirePodman(const Settings& settings);

/// Makes these changes in this process, which Podman inherits.
void changeEnvironment(const std::vector<VariableChange>& changes);

/// Runs Podman to its end.
Output capturePodman(std::vector<std::string> arguments);

/// The options of this Podman's command, from its help page: read once for each Podman (device, inode and
/// time of the program) and kept below config_home.
OptionTable lookUpOptions(const Settings& settings, const std::string& command);

/// The options before the command, from Podman's help page.
const OptionTable& lookUpGlobalOptions();

/// The text with another one in the place of each "podman", which stands from `begin` to `end`.
std::string replacePodman(
    const std::string& text,
    const std::function<std::string_view(std::size_t begin, std::size_t end)>& replacement);

/// Podman's text about its command, for our users: the program's name is ours.
std::string renamePodman(const std::string& text);

}  // namespace sarus::podman_hpc
