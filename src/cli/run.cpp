#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"
#include "cli/edf.hpp"
#include "cli/help_text.hpp"
#include "cli/run_options.hpp"
#include "cli/run_request.hpp"
#include "cli/slurm.hpp"
#include "cli/ssh.hpp"
#include "cli/starter_call.hpp"
#include "engine/container_settings.hpp"
#include "engine/starter_request.hpp"

namespace sarus::cli {

namespace {

int keeperOf(const Arguments& arguments) {
    if (!arguments.has("keeper")) {
        return -1;
    }
    const auto number = parseNumber(arguments.value("keeper"));
    if (!number || *number > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
        throw usageError(cat("Incorrect value provided for --keeper option: '",
                             printable(arguments.value("keeper")), "'. Expected the number of a descriptor."),
                         "run");
    }
    return static_cast<int>(*number);
}

/// Runs the command in the running container of the name, which must be what the options ask for.
[[noreturn]] void joinContainer(Context& context, const Arguments& arguments) {
    const auto definition = readDefinition(context, arguments);
    auto wanted = readRunOptions(context.config(), arguments);
    wanted.command = arguments.positionals();
    if (wanted.command.front() == "--") {
        wanted.command.erase(wanted.command.begin());
    }
    const auto image =
        (definition ? edfImage(*definition, hostVariable) : std::nullopt).value_or(arguments.value("join"));
    if (!image.empty()) {
        identifyImage(context, arguments, image, wanted);
    }
    if (definition) {
        applyDefinition(*definition, wanted);
    }
    const int keeper = keeperOf(arguments);
    if (keeper >= 0) {  // the container runs no entrypoint: each command of the step has it in front
        const auto& entrypoint = wanted.entrypoint ? *wanted.entrypoint : wanted.metadata.entrypoint;
        wanted.command.insert(wanted.command.begin(), entrypoint.begin(), entrypoint.end());
    }
    applySshAnnotation(arguments, wanted);
    auto settings = engine::settingsOf(wanted);
    for (const auto& option : arguments.values("join-without")) {
        settings[std::string(option == "read-only" ? engine::readonlyRootSetting
                                                   : engine::remapRootSetting)] = "";
    }
    execStarter(context, engine::ExecRequest{.name = wanted.name.value_or(""),
                                             .command = std::move(wanted.command),
                                             .hostEnvironment = std::move(wanted.hostEnvironment),
                                             .env = std::move(wanted.env),
                                             .workdir = std::move(wanted.workdir),
                                             .tty = wanted.tty,
                                             .ownStep = true,
                                             .keeper = keeper,
                                             .imageReference = std::move(wanted.imageReference),
                                             .imageContent = std::move(wanted.imageContent),
                                             .settings = std::move(settings),
                                             .stackLimit = wanted.stackLimit,
                                             .logLevel = wanted.logLevel});
}

/// A package manager of the image would fail at its first write.
void warnOfPackages(const std::vector<std::string>& command) {
    constexpr std::array programs{"apt", "apt-get", "yum", "dnf", "apk", "zypper", "sudo"};
    constexpr std::array actions{"install", "update", "upgrade", "add"};
    const auto is = [](const auto& all, std::string_view word) {
        return std::find(all.begin(), all.end(), word) != all.end();
    };
    if (command.size() > 1 && is(programs, fileNameOf(command[0])) &&
        std::any_of(command.begin() + 1, command.end(),
                    [&](const auto& word) { return is(actions, word); })) {
        logWarn("CLI",
                cat(printable(command[0]),
                    " needs root: --remap-root makes you root in the container, and --name=NAME --keep keeps "
                    "what it installs for the next container of that name"));
    }
}

int runContainer(Context& context, const Arguments& arguments) {
    if (arguments.has("check-for-later")) {
        checkForLater(context, arguments);
        return 0;
    }
    if (arguments.has("join")) {
        joinContainer(context, arguments);
    }
    const auto request =
        makeRunRequest(context, arguments, arguments.has("dry-run") ? MayBroadcast::no : MayBroadcast::yes);
    if (request.launch.ssh) {
        checkSshKeys(context);
    }
    warnOfLauncher(request.launch);
    if (!request.launch.remapRoot) {
        warnOfPackages(request.launch.command);
    }
    warnOfMissingPmix(request.launch, context.config());
    checkErrno(::fcntl(request.image.get(), F_SETFD, 0), "Failed to hand over the image");
    logInfo("CLI", cat("Image ", printable(request.launch.imageReference), " is in ",
                       printable(request.launch.imagePath)));
    execStarter(context, request.launch);
}

}  // namespace

Subcommand runCommand() {
    return {
        .name = "run",
        .usage = "sarus run [OPTIONS] REPOSITORY[:TAG] [COMMAND] [ARG...]",
        .description = "Run a command in a new container",
        .note =
            "Note: REPOSITORY[:TAG] has to be specified as\n      displayed by the \"sarus images\" command.",
        .options = runOptions(),
        .minPositionals = 1,
        .maxPositionals = anyNumber,
        .optionForPositionals = "edf",
        .completions = {Completion::images},
        .ownWords = 1,
        .run = runContainer};
}

/// A shell in a container, with a terminal of its own if `sarus` has one.
Subcommand shellCommand() {
    auto command = runCommand();
    command.name = "shell";
    command.usage = "sarus shell [OPTIONS] REPOSITORY[:TAG] [ARG...]";
    command.description = "Start a shell in a new container";
    command.note =
        "Note: The shell is bash if the image has it, otherwise sh. It gets the words behind the image.\n"
        "      The options are those of \"sarus run\".";
    command.run = [](Context& context, const Arguments& arguments) {
        if (const auto& words = arguments.positionals(); words.size() > 1 && asksForHelp(words[1])) {
            printLine(commandHelp(*findCommand("shell")));
            return 0;
        }
        auto shell = arguments;
        shell.set(startShell);
        if (!shell.has("entrypoint")) {
            shell.set("entrypoint");
        }
        if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
            shell.set("tty");
        }
        return runContainer(context, shell);
    };
    return command;
}

}  // namespace sarus::cli
