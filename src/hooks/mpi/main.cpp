#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "hooks/kit/run_hook.hpp"
#include "hooks/mpi/explain.hpp"
#include "hooks/mpi/inject.hpp"
#include "hooks/mpi/survey.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

constexpr std::string_view kName = "MPI hook";
constexpr std::string_view kUsage =
    "Usage: mpi_hook                                    (an OCI hook: reads the container's state)\n"
    "       mpi_hook --explain [--root DIR] [--json]    (shows what it would do and changes nothing)\n"
    "\n"
    "The configuration is taken from the environment: MPI_LIBS, MPI_DEPENDENCY_LIBS, BIND_MOUNTS,\n"
    "MPI_COMPATIBILITY_TYPE (major, full or strict), HOOK_ROOTLESS, MPI_VERSION_CHECK (error or warn).\n"
    "Without --root the container is the one whose OCI state is on standard input.\n";

struct Options {
    bool isExplain = false;
    bool isJson = false;
    bool isHelp = false;
    std::string root;
};

Options parseOptions(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        if (argument == "--explain") {
            options.isExplain = true;
        } else if (argument == "--json") {
            options.isJson = true;
        } else if (argument == "--help") {
            options.isHelp = true;
        } else if (argument == "--root" && i + 1 < argc) {
            options.root = argv[++i];
        } else if (argument.starts_with("--root=")) {
            options.root = argument.substr(argument.find('=') + 1);
        } else {
            throw Error(cat("Unknown argument ", printable(argument)), "mpi_hook --help lists what there is");
        }
    }
    if (!options.isHelp && !options.isExplain) {
        throw Error("--root and --json belong to --explain", "mpi_hook --help lists what there is");
    }
    return options;
}

void requireNoProblems(const mpi::InjectionPlan& plan) {
    if (!plan.problems.empty()) {
        const bool isGlibc = plan.problems.front().find("goes up to GLIBC_2.") != std::string::npos;
        throw Error(join(plan.problems, "; "), isGlibc ? "use an image with a newer C library, or the glibc hook (--glibc)" : "");
    }
}

void runAsHook(HookContext& context, const HookEnvironment& environment, const HookLog& log) {
    const auto configuration = mpi::readConfiguration(environment);
    const int root = context.rootfs();
    const auto libraryPath = context.hasConfig() ? context.containerVariable("LD_LIBRARY_PATH") : std::nullopt;
    const auto survey = mpi::makeSurvey(configuration, root, libraryPath.value_or(""));
    for (const auto& note : survey.plan.notes) {
        log.info(note);
    }
    for (const auto& warning : survey.plan.warnings) {
        log.warn(warning);
    }
    requireNoProblems(survey.plan);
    mpi::inject(survey.plan, configuration, context, log);
}

void explain(const Options& options, const HookEnvironment& environment) {
    const auto configuration = mpi::readConfiguration(environment);
    std::optional<HookContext> context;
    UniqueFd directory;
    std::string libraryPath;
    if (options.root.empty()) {
        context = HookContext::read(STDIN_FILENO);
        libraryPath = context->hasConfig() ? context->containerVariable("LD_LIBRARY_PATH").value_or("") : "";
    } else {
        directory = openFile(options.root, O_PATH | O_DIRECTORY);
    }
    const int root = context ? context->rootfs() : directory.get();
    const auto survey = mpi::makeSurvey(configuration, root, libraryPath);
    const auto text = options.isJson ? mpi::explainAsJson(survey, configuration) : mpi::explainAsTable(survey, configuration);
    writeAll(STDOUT_FILENO, text, "standard output");
    requireNoProblems(survey.plan);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc <= 1) {
        return runHook(kName, runAsHook);
    }
    try {
        const auto options = parseOptions(argc, argv);
        if (options.isHelp) {
            writeAll(STDOUT_FILENO, kUsage, "standard output");
            return 0;
        }
        explain(options, HookEnvironment::take());
        return 0;
    } catch (const Error& error) {
        printError(cat("mpi_hook: ", error.what()));
        if (!error.hint().empty()) {
            printError(cat("hint: ", error.hint()));
        }
        return error.exitStatus();
    } catch (const std::exception& error) {
        printError(cat("mpi_hook: ", printable(error.what())));
        return 1;
    }
}
