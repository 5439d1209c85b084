#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/container_options.hpp"
#include "cli/context.hpp"
#include "cli/starter_call.hpp"
#include "engine/run_options.hpp"
#include "engine/starter_request.hpp"

namespace sarus::cli {

namespace {

int runExec(Context& context, const Arguments& arguments) {
    auto request = readCommonOptions<engine::ExecRequest>(arguments, "exec");
    request.name = arguments.positionals().front();
    request.ownStep = arguments.has("own-step");
    try {
        engine::checkContainerName(request.name);
    } catch (Error& error) {
        if (request.name.find_first_of(":/") != std::string::npos) {
            error.setHint(
                "It looks like an image; 'sarus exec' needs a running container ('sarus ps'), and "
                "'sarus run' starts one");
        }
        throw;
    }
    request.command.assign(arguments.positionals().begin() + 1, arguments.positionals().end());
    execStarter(context, request);
}

std::vector<Option> execOptions() {
    std::vector<Option> options{environmentOption(), environmentFileOption(), terminalOption(),
                                workdirOption()};
    options.push_back(
        {.longName = "own-step", .help = "Keep the job step of the caller: its cgroup, variables and PMI"});
    return options;
}

}  // namespace

Subcommand execCommand() {
    return {.name = "exec",
            .usage = "sarus exec [OPTIONS] NAME COMMAND [ARG...]",
            .description = "Run a command in a running container",
            .note = "Note: NAME has to be specified as displayed by the \"sarus ps\" command.",
            .options = execOptions(),
            .minPositionals = 2,
            .maxPositionals = anyNumber,
            .completions = {Completion::containers},
            .ownWords = 2,
            .aliases = {"container exec"},
            .run = runExec};
}

}  // namespace sarus::cli
