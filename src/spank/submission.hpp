#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "spank/step_request.hpp"

namespace sarus::spank {

/// An option of the command line and its value ("" for a flag).
struct GivenOption {
    std::string name;
    std::string value;
    bool isOuter = false;  ///< of the sbatch or salloc around this command
};

/// Where srun or sbatch was called.
struct Caller {
    std::string workingDirectory;
    std::function<std::optional<std::string>(const std::string& name)> variable;
    std::vector<GivenOption> peerVariables{};  ///< whose names begin with peerPrefix, with their values
    bool isBatch = false;                      ///< sbatch: the container is that of the script
};

/// The request of a submission. An environment definition is still to be read.
struct Submission {
    StepRequest request;
    std::string environment;  ///< name or path of the definition, "" for none
    std::string changes;      ///< TOML: the keys of the definition that the options replace
};

/// What the options of Pyxis' variables, of Sarus' variables and of the command line ask for; later ones
/// replace earlier ones.
/// nullopt if nothing asks for a container. Throws Error that names the option.
std::optional<Submission> readOptions(const std::vector<GivenOption>& commandLine, bool useVariables,
                                      const Caller& caller);

/// `[USER@][REGISTRY#]IMAGE[:TAG]`, with docker:// before it or not, as `sarus` writes it.
std::string imageName(const std::string& text);

}  // namespace sarus::spank
