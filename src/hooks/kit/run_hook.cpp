#include "hooks/kit/run_hook.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>

#include "base/begin_process.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "base/time_left.hpp"
#include "hook_contracts/callers_settings.hpp"
#include "hook_contracts/shipped_hooks.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t largestInput = 16U << 20U;

void normalizeProcess() {
    beginProcess();
    ::signal(SIGPIPE, SIG_IGN);  // a reader that has gone must not stop the work
    ::umask(022);
}

/// Waits for the child; nullopt if it has not ended in time. SIGCHLD must be blocked.
std::optional<int> waitFor(pid_t child, std::chrono::steady_clock::time_point end,
                           const sigset_t& childEnded) {
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) != child) {
        const long left = millisecondsUntil(end);
        if (left == 0) {
            return std::nullopt;
        }
        const timespec patience{.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1'000'000};
        ::sigtimedwait(&childEnded, nullptr, &patience);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Forks: the child goes on with nullopt, its parent gets the exit status. A process that waits for a user's
/// file server cannot even be killed, so no time limit would help whoever waits for its end.
std::optional<int> continueInChild(std::chrono::seconds longest) {
    const auto end = std::chrono::steady_clock::now() + longest;
    sigset_t childEnded;
    sigset_t before;
    ::sigemptyset(&childEnded);
    ::sigaddset(&childEnded, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &childEnded, &before);
    const pid_t self = ::getpid();
    const pid_t child = ::fork();
    checkErrno(child, "Failed to start a process");
    if (child == 0) {
        ::sigprocmask(SIG_UNBLOCK, &childEnded, nullptr);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (::getppid() != self) {
            ::_exit(1);
        }
        return std::nullopt;
    }
    const auto status = waitFor(child, end, childEnded);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    if (!status) {
        ::kill(child, SIGKILL);
        throw Error(cat("The hook was stopped after ", longest.count(), " s"),
                    "A file system that is mounted in the container may have stopped answering");
    }
    return status;
}

/// Runs `work` and turns every exception into one or two lines for `report` and an exit status.
template <typename Report, typename Work>
int guarded(Report report, Work work) noexcept {
    try {
        try {
            return work();
        } catch (const Error& error) {
            report(error.what());
            if (!error.hint().empty()) {
                report(cat("hint: ", error.hint()));
            }
            return error.exitStatus();
        } catch (const std::exception& error) {
            report(cat("internal error: ", printable(error.what())));
        }
    } catch (...) {
        printError("hook: out of memory");
    }
    return 1;
}

void requireSupportedStage(const HookProgram& program, const oci::ContainerState& state) {
    const auto stage = oci::stageAfterStart(state);
    if (const auto problem =
            stage ? hook_contracts::explainUnsupportedStage(program.program, *stage) : std::nullopt) {
        throw Error(*problem, "Change \"stages\" in the hook's JSON file");
    }
}

bool isTrusted(const HookEnvironment& environment) {
    return environment.isTrue(hook_contracts::trustVariable);
}

bool reachesOutside(const HookProgram& program) {
    const auto* const shipped = hook_contracts::findShippedHook(program.program);
    return shipped != nullptr && shipped->reachesOutside;
}

/// Whether the hook must do nothing, because the image may have set this annotation ("": there is none).
bool mustStayIdle(const HookProgram& program, const std::string& annotation, const HookLogger& log) {
    if (annotation.empty() || !reachesOutside(program)) {
        return false;
    }
    log.warn(cat("Does nothing: the image may have set the annotation ", printable(annotation),
                 ". To trust images, add ", hook_contracts::trustVariable,
                 "=true to \"env\" in the hook's JSON file"));
    return true;
}

/// Lets standard input be read once more.
void restoreInput(const std::string& text) {
    const auto file = makeMemoryFile("container-state", text);
    checkErrno(::dup2(file.get(), STDIN_FILENO), "Failed to replace standard input");
}

enum class Mode { work, check, explain, suggest, help };

struct CommandLine {
    Mode mode = Mode::work;
    bool isJson = false;
    std::string root;
    std::vector<std::string> containerVariables;
    std::vector<std::string> arguments;  ///< the hook's own
};

/// Handles the --explain options common to all hooks; false for the hook's own arguments.
bool takeExplainOption(std::span<char* const> argv, std::size_t& at, CommandLine& line) {
    const std::string_view argument = argv[at];
    const auto valueOf = [&](std::string_view name) -> std::optional<std::string> {
        if (argument.starts_with(name) && argument[name.size()] == '=') {
            return std::string(argument.substr(name.size() + 1));
        }
        if (argument == name && at + 1 < argv.size()) {
            return std::string(argv[++at]);
        }
        return std::nullopt;
    };
    if (argument == "--json") {
        line.isJson = true;
    } else if (auto root = valueOf("--root")) {
        line.root = std::move(*root);
    } else if (auto variable = valueOf("--env")) {
        line.containerVariables.push_back(std::move(*variable));
    } else {
        return false;
    }
    return true;
}

/// A JSON file whose "args" begin with an option would lose it.
void requireProgramName(std::span<char* const> argv, const HookProgram& program) {
    if (!argv.empty() && argv[0][0] == '-') {
        throw Error(
            cat("args[0] in the hook's JSON file is ", printable(argv[0]), ", which would be ignored"),
            cat("args[0] is the program's name: \"args\": [\"", program.program, "\", \"", printable(argv[0]),
                "\", ...]"));
    }
}

CommandLine parseCommandLine(std::span<char* const> argv, const HookProgram& program) {
    CommandLine line;
    const auto arguments = argv.subspan(argv.empty() ? 0 : 1);
    const auto has = [&](std::string_view option) {
        return std::find(arguments.begin(), arguments.end(), option) != arguments.end();
    };
    line.mode = has("--help")                                    ? Mode::help
                : has("--check")                                 ? Mode::check
                : has("--explain")                               ? Mode::explain
                : program.suggest != nullptr && has("--suggest") ? Mode::suggest
                                                                 : Mode::work;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string_view argument = arguments[i];
        const bool isMode = argument == "--check" || argument == "--explain" ||
                            (line.mode == Mode::suggest && argument == "--suggest");
        if (!isMode && !(line.mode == Mode::explain && takeExplainOption(arguments, i, line))) {
            line.arguments.emplace_back(arguments[i]);
        }
    }
    return line;
}

/// Reports variables that look like misspelt ones of the hook; others, such as PATH, are harmless.
void checkVariables(const HookProgram& program, const HookEnvironment& environment, Findings& findings) {
    auto known = program.variables;
    known.push_back(logVariable);
    known.emplace_back(hook_contracts::trustVariable);
    known.emplace_back(hook_contracts::bundleVariable);
    for (const auto& name : environment.names()) {
        const auto family = std::string_view(name).substr(0, name.find('_') + 1);
        const auto isRelated = [&](std::string_view variable) {
            return !family.empty() && variable.starts_with(family);
        };
        if (std::find(known.begin(), known.end(), name) == known.end() &&
            std::any_of(known.begin(), known.end(), isRelated)) {
            findings.problem(cat("env: ", program.program, " does not know the variable ", printable(name),
                                 " (it knows ",
                                 join(std::vector<std::string>(known.begin(), known.end()), ", "), ")"));
        }
    }
}

int check(const HookProgram& program, const HookSetup& setup) {
    Findings findings;
    checkVariables(program, setup.environment, findings);
    if (!program.takesArguments && !setup.arguments.empty()) {
        findings.problem(cat("args: ", program.program, " ignores ", printable(setup.arguments.front())));
    }
    findings.attempt([&] { checkLogVariable(setup.environment); });
    for (const auto name : program.containerVariables) {
        if (setup.environment.find(name)) {
            findings.problem(cat("env: ", name, " counts in the container's environment, not here"));
        }
    }
    if (program.check != nullptr) {
        findings.attempt([&] { program.check(setup, findings); });
    }
    writeAll(STDOUT_FILENO, cat(findings.text(), findings.hasProblems() ? "" : "no problem found\n"),
             "standard output");
    return findings.hasProblems() ? 1 : 0;
}

std::string absolutePath(const std::string& path) {
    auto resolved = realPath(path);
    if (resolved.empty()) {
        throwErrno(cat("--root: ", printable(path)));
    }
    return resolved;
}

void explain(const HookProgram& program, const HookSetup& setup, const CommandLine& line) {
    std::optional<HookContext> context;
    const auto container = [&]() -> HookContext& {
        if (!context) {
            if (line.root.empty() && ::isatty(STDIN_FILENO) == 1) {
                throw Error("There is no container to explain",
                            "Name a root filesystem (--root=DIRECTORY), or give a container's state on "
                            "standard input");
            }
            context.emplace(line.root.empty()
                                ? HookContext::read(STDIN_FILENO)
                                : HookContext::ofRoot(absolutePath(line.root), line.containerVariables));
            if (line.root.empty() && !isTrusted(setup.environment)) {
                context->distrust();
            }
        }
        return *context;
    };
    if (line.isJson && !program.explainsAsJson) {
        throw Error(cat(program.program, " has no option --json"));
    }
    if (!program.takesArguments && !setup.arguments.empty()) {
        throw Error(cat("Unknown argument ", printable(setup.arguments.front())),
                    cat(program.program, " --help lists what there is"));
    }
    program.explain(setup, {container, line.isJson});
}

}  // namespace

void Findings::problem(std::string_view text) {
    if (!hasProblems()) {
        firstProblem = text;
    }
    lines += cat(text, '\n');
}

void Findings::requireNone() const {
    if (hasProblems()) {
        throw Error(firstProblem);
    }
}

void Findings::note(std::string_view text) {
    lines += cat("note: ", text, '\n');
}

void Findings::attempt(const std::function<void()>& part) {
    try {
        part();
    } catch (const Error& error) {
        if (error.errnum() == EACCES || error.errnum() == EPERM) {
            note(cat("not checked: ", error.what()));
        } else {
            problem(error.hint().empty() ? error.what() : cat(error.what(), " (", error.hint(), ")"));
        }
    }
}

void Findings::requireFile(std::string_view where, const std::string& path) {
    attempt([&] {
        struct stat status {};
        checkErrno(::stat(path.c_str(), &status), cat(where, ": ", printable(path)));
    });
}

namespace {

/// `isWatched`: the caller has set the limit of time.
int runProgram(std::span<char* const> words, const HookProgram& program, bool isWatched) noexcept {
    const HookLogger log{std::string(program.logName)};
    bool isHook = true;
    const auto report = [&](const std::string& text) {
        isHook ? log.error(text) : printError(cat(program.program, ": ", text));
    };
    return guarded(report, [&] {
        normalizeProcess();
        const auto line = parseCommandLine(words, program);
        isHook = line.mode == Mode::work;
        if (line.mode == Mode::help) {
            writeAll(STDOUT_FILENO, program.usage, "standard output");
            return 0;
        }
        const HookSetup setup{line.arguments, HookEnvironment::take()};
        if (line.mode == Mode::check) {
            return check(program, setup);
        }
        if (line.mode == Mode::explain) {
            explain(program, setup, line);
            return 0;
        }
        if (line.mode == Mode::suggest) {
            program.suggest(setup);
            return 0;
        }
        requireProgramName(words, program);
        checkErrno(::chdir("/"), "Failed to change to the directory /");
        openLog(setup.environment, log);
        const bool isTerminal = ::isatty(STDIN_FILENO) == 1;
        if (isTerminal && program.runByHand == nullptr) {
            throw Error("There is no container: standard input is a terminal",
                        cat(program.program, " is a hook, and reads there what an OCI runtime says; ",
                            program.program, " --help shows what else it can do"));
        }
        if (program.filter != nullptr) {
            const auto input =
                isTerminal ? std::string() : readAll(STDIN_FILENO, largestInput, "standard input");
            if (input.empty() && program.runByHand != nullptr) {
                program.runByHand(setup, log);
                return 0;
            }
            const bool isState = oci::isContainerState(input);
            if (isState && program.run == nullptr) {
                throw Error(cat(program.program,
                                " supports the stage precreate only: standard input is a "
                                "container's state"),
                            "Change \"stages\" in the hook's JSON file");
            }
            if (!isState) {
                std::string suspect;
                if (reachesOutside(program) && !isTrusted(setup.environment)) {
                    suspect = hook_contracts::firstCallersAnnotation(
                        oci::BundleConfig::parse(input, "standard input").annotations());
                }
                if (mustStayIdle(program, suspect, log)) {
                    writeAll(STDOUT_FILENO, input, "standard output");
                } else {
                    program.filter(setup, input, log);
                }
                return 0;
            }
            restoreInput(input);
        }
        if (!isWatched && ::geteuid() == 0) {
            if (const auto statusOfChild = continueInChild(program.longest)) {
                return *statusOfChild;
            }
        }
        auto context = HookContext::read(STDIN_FILENO);
        configureLogging(context, setup.environment, log);
        requireSupportedStage(program, context.state());
        if (isTrusted(setup.environment) || !mustStayIdle(program, context.distrust(), log)) {
            program.run(setup, context, log);
        }
        return 0;
    });
}

}  // namespace

int hookMain(int argc, char** argv, const HookProgram& program) noexcept {
    return runProgram({argv, static_cast<std::size_t>(argc)}, program, false);
}

int runHook(std::span<char* const> words, const HookProgram& program) noexcept {
    return runProgram(words, program, true);
}

void answerWith(const oci::BundleConfig& config) {
    // Only now: a failure leaves no output that an engine could take for a configuration.
    writeAll(STDOUT_FILENO, cat(config.serialize(), '\n'), "standard output");
    // Destroying the tree value by value would cost as much as writing it; the kernel frees it at once.
    ::_exit(0);
}

int runInChild(std::chrono::seconds longest, const std::function<int()>& work) noexcept {
    const auto report = [](const std::string& text) { printError(cat("hook: ", text)); };
    return guarded(report, [&] {
        if (const auto status = continueInChild(longest)) {
            return *status;
        }
        ::_exit(work());
    });
}

}  // namespace sarus::hooks
