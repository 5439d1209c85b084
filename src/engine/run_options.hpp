#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sarus::engine {

// Checks of single option values of `sarus run`. The command line calls them early for good messages; plan()
// calls them again, because the starter does not trust the command line.

/// Splits the value of --annotation at the first '='; the value is empty if there is none. Throws Error with
/// the documented messages.
std::pair<std::string, std::string> parseAnnotation(std::string_view option);

/// Splits the value of -e/--env at the first '='; the value is nullopt if there is none (to be taken from the
/// host). Throws Error with the documented messages.
std::pair<std::string, std::optional<std::string>> parseEnvironmentOption(std::string_view option);

/// The working directory that a text of --workdir means: a path that begins with "." or ".." starts at
/// `base`.
std::string resolveWorkdir(std::string_view workdir, std::string_view base);

/// Throws Error unless the path is absolute and outside /proc (the runtime changes into it).
void checkWorkdir(std::string_view workdir);

/// Throws Error unless the name matches [A-Za-z0-9][A-Za-z0-9_.-]{0,127}: it names a directory.
void checkContainerName(std::string_view name);

/// Throws Error "Empty value provided for --mpi-type option".
void checkMpiType(std::string_view type);

}  // namespace sarus::engine
