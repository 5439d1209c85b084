#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sarus::engine {

// Checks of single option values of `sarus run`. The command line calls them early, for good messages; plan() calls them
// again, because the starter does not trust the command line.

/// Splits the value of --annotation at the first '='; without one the value is empty. Throws Error with the documented messages.
std::pair<std::string, std::string> parseAnnotation(std::string_view option);

/// Splits the value of -e/--env at the first '='; without one the value is nullopt (to be taken from the host).
/// Throws Error with the documented messages.
std::pair<std::string, std::optional<std::string>> parseEnvironmentOption(std::string_view option);

/// Throws Error unless the path is absolute and neither is /proc nor lies below it (the runtime changes into it).
void checkWorkdir(std::string_view workdir);

/// Throws Error unless the name matches [A-Za-z0-9][A-Za-z0-9_.-]{0,127}: it becomes a directory's name.
void checkContainerName(std::string_view name);

/// Throws Error "Empty value provided for --mpi-type option".
void checkMpiType(std::string_view type);

}  // namespace sarus::engine
