#include "podman_hpc/cli/commands.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

// Each in the file of its command.
int completeWords(const Call& call, const Surroundings& from);
int completion(const Call& call, const Surroundings& from);
int configureHooks(const Call& call, const Surroundings& from);
int doctor(const Call& call, const Surroundings& from);
int infohpc(const Call& call, const Surroundings& from);
int migrateCommand(const Call& call, const Surroundings& from);
int moduleCommand(const Call& call, const Surroundings& from);
int rmsqi(const Call& call, const Surroundings& from);

namespace {

constexpr std::string_view configureHooksOptions =
    "  -f, --force     Replace an existing file.\n"
    "  --hooksd DIR    Write it to this directory instead of hooks_dir.\n"
    "  --help          Show this message and exit.\n";

}  // namespace

const std::vector<OwnCommand>& ownCommands() {
    static const std::vector<OwnCommand> all{
        {.name = "__complete",
         .usage = "__complete WORD...",
         .summary = "Complete a command line.",
         .options = "",
         .hidden = true,
         .run = completeWords},
        {.name = "__completeNoDesc",
         .usage = "__completeNoDesc WORD...",
         .summary = "Complete a command line.",
         .options = "",
         .hidden = true,
         .run = completeWords},
        {.name = "completion",
         .usage = "completion SHELL",
         .summary = "Print the completion script for bash, zsh or fish.",
         .options = "  --help        Show this message and exit.\n",
         .run = completion},
        {.name = "configure-hooks",
         .usage = "configure-hooks [options]",
         .summary = "Register the hook tool with Podman.",
         .options = configureHooksOptions,
         .run = configureHooks},
        {.name = "configure_hooks",
         .usage = "configure_hooks [options]",
         .summary = "Register the hook tool with Podman.",
         .options = configureHooksOptions,
         .hidden = true,
         .run = configureHooks},
        {.name = "doctor",
         .usage = "doctor [options]",
         .summary = "Check this node and this account, and say how to mend what is wrong.",
         .options = "  --json        Print JSON.\n"
                    "  --help        Show this message and exit.\n",
         .run = doctor},
        {.name = "infohpc",
         .usage = "infohpc [options]",
         .summary = "Show the version and the configuration of podman-hpc.",
         .options = "  --provenance  Show where each value comes from and what it replaces.\n"
                    "  --json        Print JSON.\n"
                    "  --help        Show this message and exit.\n",
         .run = infohpc},
        {.name = "migrate",
         .usage = "migrate [options] IMAGE",
         .summary = "Convert an image to a squashed one in the squash store.",
         .options = "  --help        Show this message and exit.\n",
         .run = migrateCommand},
        {.name = "module",
         .usage = "module check [FILE]...",
         .summary = "Check the site modules, or these files.",
         .options = "  --help        Show this message and exit.\n",
         .run = moduleCommand},
        {.name = "shared-run",
         .usage = "shared-run [options] IMAGE [COMMAND [ARG...]]",
         .summary = "Run all tasks of a node in one container.",
         .options = "  --help        Show this message and exit.\n"
                    "  Other options are those of 'podman-hpc run', with the options of modules.\n",
         .readsHelp = true,
         .run = sharedRun},
        {.name = "rmsqi",
         .usage = "rmsqi [options] IMAGE",
         .summary = "Remove an image from the squash store.",
         .options = "  --help        Show this message and exit.\n",
         .run = rmsqi},
    };
    return all;
}

const OwnCommand* findOwnCommand(std::string_view name) {
    const auto found = std::find_if(ownCommands().begin(), ownCommands().end(),
                                    [&](const OwnCommand& command) { return command.name == name; });
    return found == ownCommands().end() ? nullptr : &*found;
}

void printWarning(const std::string& message) {
    printError(cat("WARNING: ", message));
}

Settings settingsOf(const Call& call, const Surroundings& from) {
    auto settings = loadSettings(from);
    applyCall(call, settings);
    return settings;
}

}  // namespace sarus::podman_hpc
