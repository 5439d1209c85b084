#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/context.hpp"
#include "cli/launch_channel.hpp"
#include "cli/starter_call.hpp"
#include "engine/launch_request.hpp"

namespace sarus::cli {

namespace {

int run(Context& context, const Arguments& arguments) {
    auto request = commonRequest(arguments);
    request.name = arguments.positionals().front();
    request.command.assign(arguments.positionals().begin() + 1, arguments.positionals().end());
    checkOptions(request, "exec");
    const auto channel = writeRequest(request);
    execStarter(context, {"exec", cat(channel.get())});
}

}  // namespace

Command execCommand() {
    return {.name = "exec",
            .usage = "sarus exec [OPTIONS] NAME COMMAND [ARG...]",
            .description = "Run a command in a running container",
            .note = "Note: NAME has to be specified as displayed by the \"sarus ps\" command.",
            .options = {environmentOption(), environmentFileOption(), terminalOption(), workdirOption()},
            .minPositionals = 2,
            .maxPositionals = anyNumber,
            .run = run};
}

}  // namespace sarus::cli
