#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "hook_contracts/hook_wrapper.hpp"
#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/hook_environment.hpp"
#include "hooks/kit/hook_logger.hpp"

namespace sarus::hooks {

/// A hook's configuration from its JSON file.
struct HookSetup {
    std::vector<std::string> arguments;  ///< `args` without the program's name
    HookEnvironment environment;         ///< `env`
};

/// What `--check` finds.
class Findings {
public:
    /// A mistake: one line with its place and description.
    void problem(std::string_view text);
    /// Something that could not be checked.
    void note(std::string_view text);
    /// A part of a check. Its Error is a problem, or a note if the caller lacks permission (EACCES, EPERM).
    void attempt(const std::function<void()>& part);
    /// Checks that the file exists on this node; `where` is the setting that names it, such as "BIND_MOUNTS".
    void requireFile(std::string_view where, const std::string& path);

    /// Throws the first problem, if there is one.
    void requireNone() const;
    bool hasProblems() const noexcept { return !firstProblem.empty(); }
    /// The findings in order, one per line.
    const std::string& text() const noexcept { return lines; }

private:
    std::string lines;
    std::string firstProblem;
};

/// The request of `--explain`.
struct ExplainRequest {
    /// The container: from `--root` and `--env`, otherwise from the state on standard input. Throws Error.
    std::function<HookContext&()> container;
    bool isJson = false;
};

/// A hook. The functions throw Error on failure.
struct HookProgram {
    std::string_view program;                   ///< its file name: "mount_hook"
    std::string_view logName;                   ///< the subsystem in its messages: "Mount hook"
    std::string_view usage{};                   ///< for --help: purpose and configuration
    std::vector<std::string_view> variables{};  ///< the names that it supports in `env`; HOOK_LOG is added
    /// Variables read from the container; in `env` they are a mistake.
    std::vector<std::string_view> containerVariables{};
    bool takesArguments = false;  ///< otherwise arguments are ignored
    bool explainsAsJson = false;
    /// With root's rights: how long `run` may take.
    std::chrono::seconds longest = hook_contracts::wrapper::longest;

    /// Looks for mistakes in the rest of the configuration, if any, without a container and with any user's
    /// rights.
    void (*check)(const HookSetup& setup, Findings& findings) = nullptr;
    /// Prints what the hook would do without changing anything. Fails if the hook would refuse the container.
    void (*explain)(const HookSetup& setup, const ExplainRequest& request) = nullptr;
    /// `--suggest LIBRARY`: prints a hook file for a library of this node, with the caller's rights. The
    /// library is the only argument.
    void (*suggest)(const HookSetup& setup) = nullptr;
    /// The work of a hook that is started with a container's state on standard input...
    void (*run)(const HookSetup& setup, HookContext& context, const HookLogger& log) = nullptr;
    /// ...and of one that is started with config.json there (precreate), which it gets as text. It ends with
    /// answerWith(), unless nothing is to be said. Without `run`, a container's state is refused.
    void (*filter)(const HookSetup& setup, const std::string& input, const HookLogger& log) = nullptr;
    /// The work without any container: standard input is empty or a terminal. Without it, that is an error.
    void (*runByHand)(const HookSetup& setup, const HookLogger& log) = nullptr;
};

/// The main function of every hook. Without options of its own it does the hook's work: it brings the process
/// into a known condition (descriptors 0 to 2 open, umask 022, working directory `/`, signals as by default,
/// an empty environment), reads the state, sets up logging, refuses a stage that the hook does not support
/// (hook_contracts/shipped_hooks.hpp) and calls `run`; with root's rights it does this in a child, for a
/// limited time. `--check`, `--explain` (with `--root=DIRECTORY`,
/// `--env=NAME=VALUE`,
/// `--json`) and `--help` may stand anywhere after the program's name.
/// Returns the exit status: 0, or that of the Error (1 unless it says otherwise) after one line on standard
/// error that says what failed (and a second one with a hint, if there is one); of `--check` 1 if there is a
/// problem.
int hookMain(int argc, char** argv, const HookProgram& program) noexcept;

/// Writes the configuration to standard output as a precreate hook's answer, in one piece, and ends the
/// process successfully. Throws Error.
[[noreturn]] void answerWith(const oci::BundleConfig& config);

/// Runs `work` in a child process for a limited time, for a program that goes on after it: changes neither
/// its state nor its signals. SIGCHLD must have its default action (beginProcess()). Returns the result of
/// `work`, or 1 after an error message.
int runInChild(std::chrono::seconds longest, const std::function<int()>& work) noexcept;

/// hookMain() for such a child, which may run several hooks. `words`: the hook's name and arguments; its
/// configuration is in `environ`.
int runHook(std::span<char* const> words, const HookProgram& program) noexcept;

}  // namespace sarus::hooks
