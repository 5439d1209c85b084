#include "cli/command.hpp"
#include "cli/context.hpp"
#include "cli/starter_call.hpp"

namespace sarus::cli {

namespace {

int ps(Context& context, const Arguments& arguments) {
    execStarter(context, {"ps", sessionDirectory(), outputForm(arguments)});
}

int kill(Context& context, const Arguments& arguments) {
    const auto signal = arguments.has("signal") ? arguments.value("signal") : "SIGHUP";
    execStarter(context, {"kill", sessionDirectory(), signal, arguments.positionals().front()});
}

}  // namespace

Command psCommand() {
    return {.name = "ps",
            .usage = "sarus ps [OPTIONS]",
            .description = "List running containers",
            .note = {},
            .options = {jsonOption()},
            .minPositionals = 0,
            .maxPositionals = anyNumber,  // ignored, as they always were
            .skipsUnknownOptions = true,
            .run = ps};
}

Command killCommand() {
    return {.name = "kill",
            .usage = "sarus kill [OPTIONS] NAME",
            .description = "Send a signal to a running container",
            .note = {},
            .options = {{.longName = "signal",
                         .shortName = 's',
                         .takesValue = true,
                         .help = "Signal to send, by name or number. Default: SIGHUP"}},
            .minPositionals = 1,
            .maxPositionals = 1,
            .skipsUnknownOptions = true,
            .run = kill};
}

}  // namespace sarus::cli
