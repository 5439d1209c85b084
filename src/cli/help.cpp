#include "base/log.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/help_text.hpp"

namespace sarus::cli {

namespace {

int runHelp(Context&, const Arguments& arguments) {
    if (arguments.positionals().empty()) {
        printLine(generalHelp());
        return 0;
    }
    const auto& name = arguments.positionals().front();
    const auto* command = findCommand(name);
    if (command == nullptr) {
        throwUnknownCommand(name);
    }
    printLine(commandHelp(*command));
    return 0;
}

}  // namespace

Subcommand helpCommand() {
    return {.name = "help",
            .usage = "sarus help [COMMAND]",
            .description = "Print help message about a command",
            .maxPositionals = 1,
            .acceptsOptions = false,
            .completions = {Completion::commands},
            .run = runHelp};
}

}  // namespace sarus::cli
