#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"

namespace sarus::engine {

using Environment = std::map<std::string, std::string, std::less<>>;

/// "NAME=value" entries as a map; the first entry of a name wins, as getenv(3) sees it. Entries without '=' or without a name
/// are skipped: the shell that started us may pass them on, and they mean nothing.
Environment parseEnvironment(const std::vector<std::string>& entries);

/// Whether the dynamic linker removes the variable from the environment of set-user-ID programs (glibc's list of unsecure
/// variables): it speaks of the host's files and would steer programs of the container.
bool isUnsecureVariable(std::string_view name);

/// Applies values of -e/--env: NAME=VALUE, or NAME alone for the value that `host` has. Throws Error.
void applyEnvironmentOptions(const std::vector<std::string>& options, const Environment& host, Environment& container);

/// The environment of the container: host, image, CUDA, PMIx, init, site, command line; later ones win.
/// PMI_FD is left as the host has it. `origins` (may be null) is told for each variable which of these gave it its value.
Environment makeEnvironment(const SiteConfig& config, const LaunchRequest& request,
                            std::map<std::string, std::string>* origins = nullptr);

}  // namespace sarus::engine
