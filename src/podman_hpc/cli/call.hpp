#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

/// The command line of podman-hpc, split at the command.
struct Call {
    std::optional<std::string> additionalStores{};
    std::optional<std::string> squashDir{};
    std::string logLevel = "fatal";
    bool help = false;
    bool version = false;
    bool ownSeccomp = false;  ///< the words bring a seccomp filter, and stand in front of our arguments
    /// Podman's own global options: the long name if there is one, and the words as typed.
    struct GlobalOption {
        std::string name;
        std::vector<std::string> words;
        std::string value{};
    };
    std::vector<GlobalOption> podmanOptions{};
    std::string command{};
    std::vector<std::string> words{};  ///< after the command
};

/// Options of podman-hpc in front of the command; `help` is a line of the help text, "" hides the option.
struct GroupOption {
    std::string_view name;
    bool takesValue;
    std::string_view help;
};
extern const std::vector<GroupOption> groupOptions;

/// Throws Error with status 2 for an option that neither podman-hpc nor Podman has.
Call parseCall(const std::vector<std::string>& words);

/// A mistake on the command line: `usage` follows "podman-hpc".
Error usageError(std::string message, std::string_view usage = "[options] COMMAND [ARGS]...");

/// What the options of the site modules do on a command.
enum class ModuleUse {
    none,         ///< nothing: they are Podman's
    refused,      ///< an error says where they belong
    environment,  ///< they set variables
    all,
};

/// Which of our arguments a command of Podman gets besides the default ones.
struct PodmanCommand {
    std::string_view name;
    bool ignoreChownErrors = false;
    bool additionalStores = false;  ///< the squash store and others
    bool hooks = false;
    bool unconfined = false;  ///< no seccomp filter
    bool pmi = false;         ///< keeps the descriptor PMI_FD
    ModuleUse modules = ModuleUse::none;
    bool listsImages = false;  ///< of all stores
};

/// The row of the command, such as `run` or `image ls`; one without extras for all others.
const PodmanCommand& podmanCommand(const Call& call);

/// Applies the options of the call: stores and Podman's directories.
void applyCall(const Call& call, Settings& settings);

/// A call of another command of Podman with the same global options.
Call withCommand(const Call& call, std::string command);

/// Podman's arguments up to the words of the user: default arguments and those of the command, in the
/// documented order. Without `squashDir`, Podman sees its own store only.
std::vector<std::string> podmanArguments(const Call& call, const Settings& settings,
                                         const std::string& squashDir,
                                         const std::vector<std::string>& moduleArguments, bool preservesPmi);

}  // namespace sarus::podman_hpc
