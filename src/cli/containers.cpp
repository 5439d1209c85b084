#include <unistd.h>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"
#include "cli/starter_call.hpp"

namespace sarus::cli {

namespace {

int ps(Context& context, const Arguments& arguments) {
    const auto format = arguments.value("format");
    if (arguments.has("format") && format != "brief" && format != "runc") {
        throw usageError(cat("Incorrect value provided for --format option: '", printable(format),
                             "'. Supported values: 'brief', 'runc'."),
                         "ps");
    }
    // Scripts that read the columns of 1.7 and runc get them.
    const bool brief = format.empty() ? ::isatty(STDOUT_FILENO) == 1 : format == "brief";
    execStarter(context, engine::ListRequest{.sessionDirectory = sessionDirectory(),
                                             .json = arguments.has("json"),
                                             .all = arguments.has("all"),
                                             .brief = brief});
}

int kill(Context& context, const Arguments& arguments) {
    execStarter(context, engine::KillRequest{
                             .sessionDirectory = sessionDirectory(),
                             .name = arguments.positionals().front(),
                             .signal = arguments.has("signal") ? arguments.value("signal") : "SIGHUP"});
}

}  // namespace

Subcommand psCommand() {
    return {.name = "ps",
            .usage = "sarus ps [OPTIONS]",
            .description = "List running containers",
            .options = {{.longName = "all",
                         .shortName = 'a',
                         .help = "For root: list the containers of all users on this node"},
                        {.longName = "format",
                         .takesValue = true,
                         .help = "Columns: 'brief' (name, image, command, age, job) or 'runc' (as in 1.7). "
                                 "Default: 'brief' on a terminal, otherwise 'runc'"},
                        jsonOption()},
            .maxPositionals = anyNumber,  // ignored, as they always were
            .aliases = {"container ls", "container list", "container ps"},
            .run = ps};
}

Subcommand killCommand() {
    return {.name = "kill",
            .usage = "sarus kill [OPTIONS] NAME",
            .description = "Send a signal to a running container",
            .options = {{.longName = "signal",
                         .shortName = 's',
                         .takesValue = true,
                         .help = "Signal to send, by name or number. Default: SIGHUP"}},
            .minPositionals = 1,
            .maxPositionals = 1,
            .completions = {Completion::containers},
            .optionForCapitals = "signal",
            .aliases = {"container kill"},
            .run = kill};
}

}  // namespace sarus::cli
