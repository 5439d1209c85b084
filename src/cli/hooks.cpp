#include <fcntl.h>
#include <unistd.h>

#include <span>
#include <string>
#include <vector>

#include "base/columns.hpp"
#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"
#include "cli/doctor/hook_check.hpp"
#include "cli/run_request.hpp"
#include "cli/starter_call.hpp"
#include "engine/container_plan.hpp"
#include "engine/hook_report.hpp"

namespace sarus::cli {

namespace {

/// Shows which hooks would run for "run [OPTIONS] IMAGE [COMMAND...]". The starter decides in the same way.
void showFiring(Context& context, const std::vector<std::string>& commandLine,
                const std::vector<oci::HookConfig>& hooks) {
    const auto arguments = parseCommand(*findCommand("run"), std::span(commandLine).subspan(1));
    const auto request = makeRunRequest(context, arguments, MayBroadcast::no);
    engine::HostFacts facts;
    // Placeholder for a value that only the starter knows. No condition depends on it.
    facts.randomName = "xxxxxxxxxxxxxxxx";
    facts.hookOutput = "(a pipe of the engine)";
    const auto plan = engine::plan(context.config(), request.launch, facts, hooks);
    writeAll(
        STDOUT_FILENO,
        cat('\n', engine::formatFiringTable(hooks, engine::hookSubject(plan), terminalWidth(STDOUT_FILENO))),
        "standard output");
}

std::string formatHooks(const std::vector<oci::HookConfig>& hooks, const engine::SiteConfig& config,
                        const Arguments& arguments) {
    if (arguments.has("json")) {
        return engine::formatHookJson(hooks, config.defaultMpiType, arguments.has("mpi"));
    }
    const auto width = terminalWidth(STDOUT_FILENO);
    return arguments.has("mpi") ? engine::formatMpiHookTable(hooks, config.defaultMpiType, width)
                                : engine::formatHookTable(hooks, width);
}

int hooks(Context& context, const Arguments& arguments) {
    const auto& commandLine = arguments.positionals();
    if (!commandLine.empty() && !arguments.has("check")) {
        throw tooManyArguments("hooks");
    }
    if (!commandLine.empty() && commandLine.front() != "run") {
        throw usageError(
            cat("Only the hooks of 'run' can be shown, not those of '", printable(commandLine.front()), "'"),
            "hooks");
    }
    if (arguments.has("json") && arguments.has("check")) {
        throw usageError("The options '--check' and '--json' cannot be used together", "hooks");
    }
    const auto& config = context.config();
    logInfo("CLI", config.hooksDir ? cat("Hook files of ", printable(*config.hooksDir))
                                   : "No directory of hook files is configured");
    if (arguments.has("check")) {
        if (!config.hooksDir) {
            throw Error("There are no hook files to check: the key `hooksDir` is missing from sarus.json");
        }
        const auto report = checkHookFiles(*config.hooksDir, cat(context.prefix(), "/bin"));
        for (const auto& remark : report.remarks) {
            printLine(remark.text);
        }
        printLine(cat(report.intact, " of ", report.files, " hook files in ", printable(*config.hooksDir),
                      " without a problem"));
        if (!commandLine.empty()) {
            showFiring(context, commandLine, report.readable);
        }
        return report.areThereMistakes() ? 1 : 0;
    }
    std::vector<oci::HookConfig> all;
    if (config.hooksDir) {
        const auto directory = openFile(*config.hooksDir, O_PATH | O_DIRECTORY);
        for (const auto& file : listFiles(directory.get(), *config.hooksDir, {".json"})) {
            all.push_back(oci::parseHookConfig(readCheckedFile(directory.get(), file), file));
        }
    }
    writeAll(STDOUT_FILENO, formatHooks(all, config, arguments), "standard output");
    return 0;
}

}  // namespace

Subcommand hooksCommand() {
    return {.name = "hooks",
            .usage = "sarus hooks [OPTIONS]",
            .description = "List configured hooks",
            .note =
                "      sarus hooks --check [run [OPTIONS] REPOSITORY[:TAG] [COMMAND] [ARG...]]\n\n"
                "Note: With a command line of \"sarus run\", --check also shows which\n"
                "      hooks would run for that container, and why.",
            .options = {{.longName = "check",
                         .help = "Look for mistakes in hook files and in the configuration of hooks"},
                        jsonOption(),
                        {.longName = "mpi", .shortName = 'm', .help = "List MPI hooks and their types"}},
            .maxPositionals = anyNumber,
            .ownWords = 1,
            .run = hooks};
}

}  // namespace sarus::cli
