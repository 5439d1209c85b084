#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"
#include "cli/run_request.hpp"
#include "cli/starter_call.hpp"
#include "engine/container_plan.hpp"
#include "engine/hook_files.hpp"
#include "engine/hook_report.hpp"

namespace sarus::cli {

namespace {

constexpr int standardOutput = 1;

/// The hook, if its file can be read at all; what is wrong with it is appended to `problems`.
std::optional<oci::HookConfig> checkHook(int directory, const std::string& file, std::vector<std::string>& problems) {
    try {
        auto hook = engine::readHookFile(directory, file);
        auto found = engine::suspiciousConditions(hook);
        const bool inContainer = hook.stages == std::vector<std::string>{"startContainer"};
        if (!inContainer && ::access(hook.hook.path.c_str(), X_OK) != 0) {
            found.push_back(cat("the program ", printable(hook.hook.path), " cannot be run: ", std::strerror(errno)));
        }
        for (const auto& problem : found) {
            problems.push_back(cat(printable(file), ": ", problem));
        }
        return hook;
    } catch (const Error& error) {
        problems.emplace_back(error.what());
        return std::nullopt;
    }
}

/// Prints the mistakes; returns whether there are any, and the hooks of readable files in `hooks`.
bool checkAll(int directory, const std::string& path, std::vector<oci::HookConfig>& hooks) {
    std::size_t intact = 0;
    const auto files = engine::listHookFiles(directory, path);
    for (const auto& file : files) {
        std::vector<std::string> problems;
        if (auto hook = checkHook(directory, file, problems)) {
            hooks.push_back(std::move(*hook));
        }
        for (const auto& problem : problems) {
            printLine(problem);
        }
        intact += problems.empty() ? 1U : 0U;
    }
    printLine(cat(intact, " of ", files.size(), " hook files in ", printable(path), " without a problem"));
    return intact != files.size();
}

/// Which hooks would run for "run [OPTIONS] IMAGE [COMMAND...]", decided as the starter decides it.
void showFiring(Context& context, const std::vector<std::string>& commandLine, const std::vector<oci::HookConfig>& hooks) {
    const auto run = runCommand();
    const auto arguments = parseCommand(run, std::span(commandLine).subspan(1));
    const auto request = makeRunRequest(context, arguments);
    engine::HostFacts facts;
    // What only the starter knows stands for itself; no condition on the other values depends on it.
    facts.randomName = "xxxxxxxxxxxxxxxx";
    facts.hookOutput = "(a pipe of the engine)";
    const auto plan = engine::plan(context.config(), request.launch, facts);
    writeAll(standardOutput, cat('\n', engine::formatFiringTable(hooks, engine::hookSubject(plan))), "standard output");
}

std::string formatHooks(const std::vector<oci::HookConfig>& hooks, const engine::SiteConfig& config, const Arguments& arguments) {
    if (arguments.has("json")) {
        return engine::formatHookJson(hooks, config.defaultMpiType, arguments.has("mpi"));
    }
    return arguments.has("mpi") ? engine::formatMpiHookTable(hooks, config.defaultMpiType) : engine::formatHookTable(hooks);
}

int hooks(Context& context, const Arguments& arguments) {
    const auto& commandLine = arguments.positionals();
    if (!commandLine.empty() && !arguments.has("check")) {
        throw Error(cat("Too many arguments for command 'hooks'\n", seeHelp("hooks")));
    }
    if (!commandLine.empty() && commandLine.front() != "run") {
        throw Error(
            cat("Only the hooks of 'run' can be shown, not those of '", printable(commandLine.front()), "'\n", seeHelp("hooks")));
    }
    if (arguments.has("json") && arguments.has("check")) {
        throw Error(cat("The options '--check' and '--json' cannot be used together\n", seeHelp("hooks")));
    }
    const auto& config = context.config();
    logInfo("CLI", config.hooksDir ? cat("Hook files of ", printable(*config.hooksDir)) : "There is no directory of hook files");
    if (arguments.has("check")) {
        if (!config.hooksDir) {
            throw Error("There are no hook files to check: the key `hooksDir` is missing from sarus.json");
        }
        const auto directory = openFile(*config.hooksDir, O_PATH | O_DIRECTORY);
        std::vector<oci::HookConfig> readable;
        const bool isWrong = checkAll(directory.get(), *config.hooksDir, readable);
        if (!commandLine.empty()) {
            showFiring(context, commandLine, readable);
        }
        return isWrong ? 1 : 0;
    }
    const auto all = config.hooksDir
                         ? engine::readHookFiles(openFile(*config.hooksDir, O_PATH | O_DIRECTORY).get(), *config.hooksDir)
                         : std::vector<oci::HookConfig>();
    writeAll(standardOutput, formatHooks(all, config, arguments), "standard output");
    return 0;
}

}  // namespace

Command hooksCommand() {
    return {.name = "hooks",
            .usage = "sarus hooks [OPTIONS]",
            .description = "List configured hooks",
            .note =
                "      sarus hooks --check [run [OPTIONS] REPOSITORY[:TAG] [COMMAND] [ARG...]]\n\n"
                "Note: With a command line of \"sarus run\", --check also shows which\n"
                "      hooks would run for that container, and why.",
            .options = {{.longName = "check", .help = "Look for mistakes in the hook files"},
                        jsonOption(),
                        {.longName = "mpi", .shortName = 'm', .help = "List MPI hooks and their types"}},
            .minPositionals = 0,
            .maxPositionals = anyNumber,
            .run = hooks};
}

}  // namespace sarus::cli
