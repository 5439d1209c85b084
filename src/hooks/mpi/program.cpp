#include "hooks/mpi/program.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "hooks/kit/run_hook.hpp"
#include "hooks/mpi/explain.hpp"
#include "hooks/mpi/inject.hpp"
#include "hooks/mpi/suggest.hpp"
#include "hooks/mpi/survey.hpp"

namespace sarus::hooks {

namespace {

constexpr std::string_view usage =
    "Usage: mpi_hook                        (an OCI hook: reads the container's state)\n"
    "       mpi_hook --check                (looks for mistakes in its configuration)\n"
    "       mpi_hook --explain [--json] [--root DIR [--env NAME=VALUE]... [COMMAND [ARG...]]]\n"
    "                                       (shows what it would do and changes nothing)\n"
    "       mpi_hook --suggest LIBRARY      (prints a hook file for an MPI library of this node)\n"
    "\n"
    "The configuration is taken from the environment: MPI_LIBS, MPI_DEPENDENCY_LIBS, BIND_MOUNTS,\n"
    "MPI_COMPATIBILITY_TYPE (major, full or strict), HOOK_ROOTLESS, MPI_VERSION_CHECK (error or warn).\n"
    "With GLIBC_LIBS, --explain assumes that the glibc hook runs before with the same libraries.\n"
    "Without --root the container is the one whose OCI state is on standard input. With --root, name the\n"
    "container's command and the variables PATH and LD_LIBRARY_PATH of its environment.\n";

std::string hintFor(const mpi::InjectionPlan& plan) {
    if (plan.problems.front().find(": looked in ") != std::string::npos) {
        return "name the directory of the image's MPI in its LD_LIBRARY_PATH or /etc/ld.so.conf";
    }
    if (plan.problems.front().find("goes up to GLIBC_2.") != std::string::npos) {
        return "use an image with a newer C library, or the glibc hook (--glibc)";
    }
    return {};
}

void requireNoProblems(const mpi::InjectionPlan& plan) {
    if (!plan.problems.empty()) {
        throw Error(join(plan.problems, "; "), hintFor(plan));
    }
}

mpi::StartedCommand commandOf(const HookContext& context) {
    return context.hasConfig() ? mpi::startedCommand(context.config()) : mpi::StartedCommand();
}

/// Whether this is the first or only rank of its job step on the node: the others need not repeat a warning.
bool isFirstOnNode(const HookContext& context) {
    constexpr std::array<std::string_view, 6> variables{
        "SLURM_LOCALID",     "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
        "PALS_LOCAL_RANKID", "MV2_COMM_WORLD_LOCAL_RANK",  "FLUX_TASK_LOCAL_ID"};
    return !context.hasConfig() || std::all_of(variables.begin(), variables.end(), [&](auto name) {
        return context.containerVariable(name).value_or("0") == "0";
    });
}

/// One line for the verbose output.
void logMpiInUse(const mpi::InjectionPlan& plan, const HookLogger& log) {
    for (const auto& injection : plan.injections) {
        if (injection.role == Role::mpi && injection.method == Method::replace) {
            const auto name = mpi::describeMpi(injection.library);
            log.info(cat("MPI in use: the host's ", name.empty() ? "" : cat(name, ", "),
                         printable(injection.library.path), ", in place of the container's ",
                         printable(injection.destinations.front())));
            return;
        }
    }
}

void activate(HookContext& context, const HookEnvironment& environment, const HookLogger& log) {
    const auto configuration = mpi::readConfiguration(environment);
    const int root = context.rootfs();
    const auto survey = mpi::makeSurvey(configuration, root, commandOf(context));
    for (const auto& note : survey.plan.notes) {
        log.info(note);
    }
    const bool isFirst = isFirstOnNode(context);
    for (const auto& warning : survey.plan.warnings) {
        isFirst ? log.warn(warning) : log.info(warning);
    }
    requireNoProblems(survey.plan);
    logMpiInUse(survey.plan, log);
    mpi::inject(survey.plan, configuration, context, log);
}

void runAsHook(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    try {
        activate(context, setup.environment, log);
    } catch (const Error&) {
        log.error("Failed to activate MPI support.");
        throw;
    }
}

/// The container's command, or the one on the command line if there is only a root filesystem.
mpi::StartedCommand explainedCommand(const HookSetup& setup, const HookContext& context) {
    auto command = commandOf(context);
    if (setup.arguments.empty() && !command.arguments.empty()) {
        return command;
    }
    if (!command.arguments.empty() ||
        (!setup.arguments.empty() && setup.arguments.front().starts_with('-'))) {
        throw Error(cat("Unknown argument ", printable(setup.arguments.front())),
                    "mpi_hook --help lists what there is");
    }
    command.arguments = setup.arguments;
    command.workingDirectory = command.workingDirectory.empty() ? "/" : command.workingDirectory;
    command.path =
        command.path.empty() ? "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" : command.path;
    return command;
}

void explain(const HookSetup& setup, const ExplainRequest& request) {
    const auto configuration = mpi::readConfiguration(setup.environment);
    auto& context = request.container();
    const auto command = explainedCommand(setup, context);
    std::vector<HostLibrary> glibc;
    for (const auto& path : parsePathList("GLIBC_LIBS", setup.environment.find("GLIBC_LIBS").value_or(""))) {
        glibc.push_back(readHostLibrary(path));
    }
    const auto survey = mpi::makeSurvey(configuration, context.rootfs(), command, glibc);
    const auto text = request.isJson ? mpi::explainAsJson(survey, configuration)
                                     : mpi::explainAsTable(survey, configuration);
    writeAll(STDOUT_FILENO, text, "standard output");
    requireNoProblems(survey.plan);
}

void check(const HookSetup& setup, Findings& findings) {
    if (!setup.arguments.empty()) {
        findings.problem(cat("args: mpi_hook ignores ", printable(setup.arguments.front())));
    }
    for (const auto& problem : mpi::checkConfiguration(setup.environment)) {
        findings.problem(problem);
    }
    if (findings.hasProblems()) {
        return;
    }
    const auto configuration = mpi::readConfiguration(setup.environment);
    const auto name = mpi::describeMpi(configuration.mpiLibraries.front());
    if (name.empty()) {
        return;
    }
    findings.note(cat("MPI_LIBS is ", name));
    const auto needs = mpi::uncoveredNeeds(configuration.mpiLibraries, configuration.dependencies);
    if (!needs.empty()) {
        findings.note(cat("the container's own ", printable(join(needs, ", ")),
                          needs.size() == 1 ? " is" : " are", " used with it: mpi_hook --suggest ",
                          printable(configuration.mpiLibraries.front().path),
                          " prints a complete hook file"));
    }
}

void printHookFile(const HookSetup& setup) {
    if (setup.arguments.size() != 1) {
        throw Error("--suggest needs one MPI library of this node", "mpi_hook --help shows how");
    }
    const auto suggestion =
        mpi::suggest(setup.arguments.front(), setup.environment.find("LD_LIBRARY_PATH").value_or(""));
    for (const auto& note : suggestion.notes) {
        printError(cat("note: ", note));
    }
    writeAll(STDOUT_FILENO, mpi::formatHookFile(suggestion, ownProgramPath()), "standard output");
}

}  // namespace

HookProgram mpi::program() {
    return {.program = "mpi_hook",
            .logName = "MPI hook",
            .usage = usage,
            .variables = {"MPI_LIBS", "MPI_DEPENDENCY_LIBS", "BIND_MOUNTS", "MPI_COMPATIBILITY_TYPE",
                          "HOOK_ROOTLESS", "MPI_VERSION_CHECK", "LDCONFIG_PATH", "GLIBC_LIBS"},
            .takesArguments = true,
            .explainsAsJson = true,
            .check = check,
            .explain = explain,
            .suggest = printHookFile,
            .run = runAsHook};
}

}  // namespace sarus::hooks
