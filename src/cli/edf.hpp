#pragma once

#include <string>
#include <vector>

#include "cli/edf_file.hpp"
#include "cli/place/expansion.hpp"
#include "engine/launch_request.hpp"

namespace sarus::cli {

/// The directories to search for a name: those of $EDF_PATH (absolute paths, separated by colons; without it,
/// $HOME/.edf), then the site's.
std::vector<std::string> edfSearchPath(const VariableLookup& environment,
                                       const std::vector<std::string>& site);

/// Loads an environment definition and everything that it inherits from, bases first. Scalars: the last value
/// wins; `env` and `annotations`: the last value of each name; `mounts` and `devices`: all of them, each
/// once.
///
/// `reference` is a path if it begins with '.' or '/' or ends in ".toml", otherwise the name of a file
/// NAME.toml of the search path. A path ends in ".toml" or begins with "/dev/fd/". Throws Error, also for a
/// file that inherits from itself.
EdfFile loadEdf(const std::string& reference, const std::vector<std::string>& searchPath,
                const VariableLookup& environment);

/// A definition with the keys of `own` over those of `base`.
EdfFile inheritFrom(EdfFile base, EdfFile own);

/// The definition as one TOML file that inherits from no other. Variables stay unexpanded.
std::string tomlText(const EdfFile& edf);

/// The image of the definition in the form of the command line: `REGISTRY#IMAGE` becomes `REGISTRY/IMAGE`,
/// without a user's name before the registry. nullopt if the definition has none.
std::optional<std::string> edfImage(const EdfFile& edf, const VariableLookup& environment);

/// `REGISTRY#IMAGE` in the form of the command line; any other text as it is.
std::string withoutRegistryMark(const std::string& image);

/// Adds the options of a definition to a request with those of the command line, which win. `environment` is
/// that of the image, then the caller's. Relative sources of mounts begin at `workingDirectory`. The value of
/// a variable in a mount is a path or a part of it. Throws Error "FILE:LINE: KEY: ...".
void applyEdf(const EdfFile& edf, const VariableLookup& environment, const std::string& workingDirectory,
              engine::LaunchRequest& request);

}  // namespace sarus::cli
