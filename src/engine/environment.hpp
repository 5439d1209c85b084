#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"

namespace sarus::engine {

using Environment = std::map<std::string, std::string, std::less<>>;

/// "NAME=value" entries as a map. The first entry of a name wins, as in getenv(3). Skips entries without '='
/// or name: a shell may pass them on, but they have no meaning.
Environment parseEnvironment(const std::vector<std::string>& entries);

/// The variable's value; "" if it is not set.
std::string_view valueOf(const Environment& environment, std::string_view name);

/// Whether the dynamic linker removes the variable from the environment of set-user-ID programs (glibc's list
/// of unsecure variables). Such a variable refers to the host's files and would affect programs of the
/// container.
bool isUnsecureVariable(std::string_view name);

/// Applies values of -e/--env: NAME=VALUE, or NAME alone for the value in `host`. Throws Error.
void applyEnvironmentOptions(const std::vector<std::string>& options, const Environment& host,
                             Environment& container);

/// The environment of the container: host, image, CUDA, PMIx, init, site, command line; later ones win.
/// Leaves PMI_FD as on the host. `origins` (may be null) receives the step that set each variable. `gpus`:
/// NVIDIA_VISIBLE_DEVICES of the running container that the command joins.
Environment makeEnvironment(const SiteConfig& config, const LaunchRequest& request,
                            std::map<std::string, std::string>* origins = nullptr,
                            const std::optional<std::string>& gpus = std::nullopt);

/// The variables of the container, in the order of their names, that choose a locale as on the host: neither
/// an option nor one of `own` did.
std::vector<std::string> localesOfHost(const Environment& container, const std::vector<std::string>& own);

/// The names of the variables that the image, the site and the command line give the container, sorted: the
/// others are the caller's.
std::vector<std::string> ownVariables(const SiteConfig& config, const LaunchRequest& request);

}  // namespace sarus::engine
