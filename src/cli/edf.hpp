#pragma once

#include <string>
#include <vector>

#include "cli/edf_file.hpp"
#include "cli/expansion.hpp"
#include "engine/launch_request.hpp"

namespace sarus::cli {

/// The directories in which a name is looked for: those of $EDF_PATH (a colon list of absolute paths; without it, $HOME/.edf),
/// then the site's.
std::vector<std::string> edfSearchPath(const VariableLookup& environment, const std::vector<std::string>& site);

/// Loads an environment definition with everything from which it inherits, the bases first, in order. Scalars: the last one wins;
/// `env` and `annotations`: the last one of each name; `mounts` and `devices`: all of them, each once.
///
/// `reference` is a path if it begins with '.' or '/' or ends in ".toml", else the name of a file NAME.toml of the search path.
/// Throws Error, also for a file that inherits from itself.
EdfFile loadEdf(const std::string& reference, const std::vector<std::string>& searchPath, const VariableLookup& environment);

/// The image of the definition in the form of the command line: `REGISTRY#IMAGE` becomes `REGISTRY/IMAGE`, a user's name in front
/// of the registry is left out. nullopt if the definition has none.
std::optional<std::string> edfImage(const EdfFile& edf, const VariableLookup& environment);

/// Turns a definition into options of a request that holds those of the command line already: what stands on the command line
/// wins. `environment` is that of the image, then the caller's; relative sources of mounts begin at `workingDirectory`.
/// Throws Error "FILE:LINE: KEY: ...".
void applyEdf(const EdfFile& edf, const VariableLookup& environment, const std::string& workingDirectory,
              engine::LaunchRequest& request);

}  // namespace sarus::cli
