#include <unistd.h>

#include "base/columns.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/broadcast.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/containers_of_others.hpp"
#include "cli/context.hpp"
#include "cli/starter_call.hpp"

namespace sarus::cli {

namespace {

int ps(Context& context, const Arguments& arguments) {
    const auto format = arguments.value("format");
    if (arguments.has("format") && format != "brief" && format != "runc" && format != "json") {
        throw usageError(cat("Incorrect value provided for --format option: '", printable(format),
                             "'. Supported values: 'brief', 'runc', 'json'."),
                         "ps");
    }
    // Scripts that read the columns of 1.7 and runc get them.
    const bool brief = format.empty() ? ::isatty(STDOUT_FILENO) == 1 : format == "brief";
    engine::ListRequest request{
        .sessionDirectory = sessionDirectory(),
        .json = !arguments.has("quiet") && (arguments.has("json") || format == "json"),
        .all = arguments.has("all") && ::geteuid() == 0,
        .kept = arguments.has("all"),
        .brief = !arguments.has("quiet") && brief,
        .width = static_cast<int>(terminalWidth(STDOUT_FILENO))};
    if (request.all) {
        constexpr std::size_t largest = engine::maxRequestStringLength / 2;
        request.others = containersOfOthers(context, largest);
    }
    if (!arguments.has("quiet")) {
        execStarter(context, request);
    }
    const auto table = split(askStarter(context, request), '\n');
    for (std::size_t i = 1; i + 1 < table.size(); ++i) {
        printLine(table[i].substr(0, table[i].find(' ')));
    }
    return 0;
}

engine::RemoveRequest removeRequest() {
    return {.sessionDirectory = sessionDirectory(), .job = hostVariable("SLURM_JOB_ID").value_or("")};
}

int rm(Context& context, const Arguments& arguments) {
    if (arguments.has("all") && !arguments.positionals().empty()) {
        throw usageError("The option '--all' cannot be used with names of containers", "rm");
    }
    auto request = removeRequest();
    request.names = arguments.positionals();
    request.force = arguments.has("force");
    request.allIdle = arguments.has("all");
    request.onlyJob = arguments.value("job");
    if (arguments.has("job") && !request.allIdle) {
        throw usageError("The option '--job' requires '--all'", "rm");
    }
    const auto job = parseNumber(request.onlyJob);
    if (arguments.has("job") && !job) {
        throw usageError(cat("Incorrect value provided for --job option: '", printable(request.onlyJob),
                             "'. Expected the number of a job."),
                         "rm");
    }
    if (job) {
        removeCopies(context, {.id = *job});
    }
    execStarter(context, request);
}

int kill(Context& context, const Arguments& arguments) {
    execStarter(context, engine::KillRequest{
                             .sessionDirectory = sessionDirectory(),
                             .name = arguments.positionals().front(),
                             .signal = arguments.has("signal") ? arguments.value("signal") : "SIGHUP"});
}

}  // namespace

Subcommand psCommand() {
    return {
        .name = "ps",
        .usage = "sarus ps [OPTIONS]",
        .description = "List containers",
        .options = {{.longName = "all",
                     .shortName = 'a',
                     .help = "List also containers that were kept ('sarus run --keep') and do not run; for "
                             "root, those of all users on this node"},
                    {.longName = "format",
                     .takesValue = true,
                     .help = "Columns: 'brief' (name, image, command, age, job) or 'runc' (as in 1.7), "
                             "or 'json'. Default: 'brief' on a terminal, otherwise 'runc'"},
                    jsonOption(),
                    {.longName = "quiet", .shortName = 'q', .help = "Print only the names"}},
        .maxPositionals = anyNumber,  // ignored, as they always were
        .aliases = {"container ls", "container list", "container ps"},
        .run = ps};
}

Subcommand rmCommand() {
    return {
        .name = "rm",
        .usage = "sarus rm [OPTIONS] NAME [NAME...]",
        .description = "Remove containers that were kept",
        .note = "Note: These are the containers of \"sarus run --keep\"; \"sarus rmi\" removes images.",
        .options = {{.longName = "all",
                     .shortName = 'a',
                     .help = "Remove all that do not run; with '--force', all"},
                    {.longName = "force", .shortName = 'f', .help = "End those that run"},
                    {.longName = "job",
                     .takesValue = true,
                     .help = "With '--all': remove only those of this Slurm job, and its copies of images "
                             "('sarus bcast')"}},
        .minPositionals = 1,
        .maxPositionals = anyNumber,
        .optionForPositionals = "all",
        .completions = {Completion::containers},
        .aliases = {"container rm", "container remove"},
        .run = rm};
}

/// As in Docker; hidden: "rm --all" says the same.
Subcommand containerPruneCommand() {
    return {.name = "container prune",
            .usage = "sarus container prune",
            .description = "Remove all containers that were kept and do not run",
            .hidden = true,
            .run = [](Context& context, const Arguments&) -> int {
                auto request = removeRequest();
                request.allIdle = true;
                execStarter(context, request);
            }};
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
