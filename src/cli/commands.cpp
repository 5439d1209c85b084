#include <algorithm>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"

namespace sarus::cli {

// One function for each command, in the file of the command. A new command is added to these two lists, and
// nowhere else.
using CommandFunction = Subcommand();
CommandFunction bcastCommand, completionCommand, configCommand, containerPruneCommand, dfCommand,
    doctorCommand, edfCommand, execCommand, helpCommand, hooksCommand, imagesCommand, inspectCommand,
    killCommand, loadCommand, pruneCommand, psCommand, pullCommand, referenceCommand, rmCommand, rmiCommand,
    runCommand, saveCommand, shellCommand, sshKeygenCommand, tagCommand, versionCommand;

namespace {

/// Every command takes the options that all have, unless it gives the name another meaning.
std::vector<Subcommand> withCommonOptions(std::vector<Subcommand> all) {
    for (auto& command : all) {
        for (const auto& option : commonOptions()) {
            const auto isSame = [&](const Option& own) { return own.longName == option.longName; };
            if (command.acceptsOptions &&
                std::none_of(command.options.begin(), command.options.end(), isSame)) {
                command.options.push_back(option);
            }
        }
    }
    return all;
}

}  // namespace

const std::vector<Subcommand>& commands() {
    static const auto all =
        withCommonOptions({bcastCommand(), completionCommand(), configCommand(), containerPruneCommand(),
                           dfCommand(),    doctorCommand(),     edfCommand(),    execCommand(),
                           helpCommand(),  hooksCommand(),      imagesCommand(), inspectCommand(),
                           killCommand(),  loadCommand(),       pruneCommand(),  psCommand(),
                           pullCommand(),  referenceCommand(),  rmCommand(),     rmiCommand(),
                           runCommand(),   saveCommand(),       shellCommand(),  sshKeygenCommand(),
                           tagCommand(),   versionCommand()});
    return all;
}

const Subcommand* findCommand(std::string_view name) {
    const auto found = std::find_if(commands().begin(), commands().end(), [&](const Subcommand& command) {
        return command.name == name ||
               std::find(command.aliases.begin(), command.aliases.end(), name) != command.aliases.end();
    });
    return found == commands().end() ? nullptr : &*found;
}

std::pair<const Subcommand*, std::size_t> findCommand(std::span<const std::string> words) {
    if (words.size() > 1) {
        if (const auto* command = findCommand(cat(words[0], ' ', words[1]))) {
            return {command, 2};
        }
    }
    return {words.empty() ? nullptr : findCommand(words[0]), 1};
}

}  // namespace sarus::cli
