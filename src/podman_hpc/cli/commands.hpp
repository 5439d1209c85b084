#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "podman_hpc/cli/call.hpp"
#include "podman_hpc/config/settings.hpp"
#include "podman_hpc/modules/module.hpp"

namespace sarus::podman_hpc {

/// A command of podman-hpc's own. All other words are Podman's commands.
struct OwnCommand {
    std::string_view name;
    std::string_view usage;    ///< after "Usage: podman-hpc"
    std::string_view summary;  ///< one sentence
    std::string_view options;  ///< lines of the help text
    bool hidden = false;
    bool readsHelp = false;  ///< finds `--help` itself, which may be a word of a container's command
    /// Returns the exit status.
    int (*run)(const Call& call, const Surroundings& from) = nullptr;
};

/// All of them, by name. A new one is added in commands.cpp.
const std::vector<OwnCommand>& ownCommands();
const OwnCommand* findOwnCommand(std::string_view name);

/// The settings of this call.
Settings settingsOf(const Call& call, const Surroundings& from);

/// Prints "WARNING: ..." on standard error.
void printWarning(const std::string& message);

/// Passes the call on to Podman. Returns the exit status of a help page; otherwise Podman replaces this
/// process.
int passThrough(const Call& call, const Surroundings& from);

/// One container for all tasks of this step on this node; this task's command in it. Returns its status. The
/// words of the call are those of `run`.
int sharedRun(const Call& call, const Surroundings& from);

/// Makes the descriptor PMI_FD the one that Podman passes on. False if there is none.
bool providePmi(const Surroundings& from);

/// Provides what lies on disk before Podman starts. Returns the squash store that Podman can read. `image`:
/// the one that a container is for, "" if there is none.
std::string prepareStores(const Settings& settings, const PodmanCommand& command,
                          const std::string& squashDir, const std::string& image, const Surroundings& from);

/// Provides the log of the hook that the options ask for (LOG_PLUGIN). Warns about modules and a log for
/// which the hook is missing.
void prepareHook(const Settings& settings, const std::vector<Module>& modules,
                 const std::set<std::string>& flags, const std::vector<std::string>& options);

/// Provides what a container with these options of `run` needs. Throws Error if the user cannot have it.
void prepareContainer(const std::vector<std::string>& moduleWords, const std::vector<std::string>& options,
                      const Surroundings& from);

void printGeneralHelp(const Surroundings& from);
/// `modules`: those whose options the command has.
void printOwnHelp(const OwnCommand& command, const std::vector<Module>& modules = {});

}  // namespace sarus::podman_hpc
