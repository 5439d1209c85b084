// The helper of the plugin in Slurm. It does, as a process of the user, what the plugin must not do in
// Slurm's processes: it interprets options and variables, reads files and starts `sarus`. On the node it is
// the task that Slurm starts: what Slurm applies to tasks (limits, bindings, signals) holds for it.

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/begin_process.hpp"
#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/installation_prefix.hpp"
#include "base/log.hpp"
#include "base/said_once.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "base/turn.hpp"
#include "base/unique_fd.hpp"
#include "engine/site_config.hpp"
#include "spank/options.hpp"
#include "spank/sarus_call.hpp"
#include "spank/step_container.hpp"
#include "spank/step_decision.hpp"
#include "spank/step_request.hpp"
#include "spank/submission.hpp"

namespace sarus::spank {

namespace {

[[noreturn]] void execute(const std::vector<std::string>& words) {
    replaceProcess(sarusPath(), words);
}

GivenOption parseOption(const std::string& word) {
    const bool isOuter = word.starts_with(outerMark);
    const auto option = word.substr(isOuter ? 1 : 0);
    const auto separator = option.find('=');
    return {option.substr(0, separator),
            separator == std::string::npos ? std::string() : option.substr(separator + 1), isOuter};
}

/// The defaults if it cannot be read: `sarus` tells what is wrong.
engine::SiteConfig siteConfig() {
    const auto file = cat(installationPrefix(), "/etc/sarus.json");
    try {
        return engine::parseSiteConfig(readFile(file), file);
    } catch (const Error&) {
        return {};
    }
}

std::vector<GivenOption> peerVariables() {
    std::vector<GivenOption> found;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        if (std::string_view(*entry).starts_with(peerPrefix)) {
            found.push_back(parseOption(*entry));
        }
    }
    if (!found.empty() && !siteConfig().pyxisVariables) {
        found.clear();
    }
    return found;
}

/// What `sarus` prints. Its messages are the user's: they go where this program's own do. Ends this program
/// if `sarus` fails.
std::string askSarus(std::vector<std::string> words, int inherited = -1) {
    Command command{.path = sarusPath(), .args = std::move(words)};
    if (inherited >= 0) {
        command.keepFds = {inherited};
    }
    const auto output = runAndCapture(command);
    writeAll(STDERR_FILENO, output.err, "standard error");
    if (!output.status.ok()) {
        std::exit(1);
    }
    return output.out;
}

std::string readDefinition(const std::string& name, const std::string& changes) {
    std::vector<std::string> words{"sarus", "edf", "show", name};
    if (!changes.empty()) {
        words.push_back(changes);
    }
    return askSarus(std::move(words));
}

/// What `sarus run` would refuse on the node is refused here, before the job is queued.
void checkRequest(const StepRequest& request) {
    if (request.image.empty() && request.edf.empty()) {
        return;  // it joins a container
    }
    const DefinitionFile definition(request.edf);
    auto words = runArguments(request, {"true", {}}, definition.path(), false, "", false);
    words.insert(words.begin() + 2, "--check-for-later");
    askSarus(std::move(words), definition.fd());
}

/// `sarus-spank-submit local|batch|allocator NAME[=VALUE]...`: prints the request, or nothing without one.
/// Variables are for srun alone: sbatch and salloc would give them to all that they start.
int submit(const std::vector<std::string>& words) {
    std::vector<GivenOption> given;
    for (std::size_t i = 2; i < words.size(); ++i) {
        given.push_back(parseOption(words[i]));
    }
    const auto place = words.size() > 1 ? words[1] : "";
    auto submission = readOptions(given, place == "local",
                                  {.workingDirectory = workingDirectory(),
                                   .variable = hostVariable,
                                   .peerVariables = peerVariables(),
                                   .isBatch = place == "batch"});
    if (!submission) {
        return 0;
    }
    if (!submission->environment.empty()) {
        submission->request.edf = readDefinition(submission->environment, submission->changes);
    }
    checkRequest(submission->request);
    writeAll(STDOUT_FILENO, serialize(submission->request), "standard output");
    return 0;
}

/// What the container and the steps that start in it must not inherit.
void forgetVariables() {
    std::vector<std::string> own{requestVariable, wordVariable, scriptVariable, sharedVariable,
                                 tasksVariable};
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        // Slurm gives the options of sbatch to each srun in the script.
        if (text.starts_with("SLURM_SPANK__SLURM_SPANK_OPTION_sarus_")) {
            own.emplace_back(text.substr(0, text.find('=')));
        }
    }
    for (const auto& name : own) {
        ::unsetenv(name.c_str());
    }
}

/// The engine closes the descriptor when it has noted the name of the container.
void passOnTurn(const std::optional<Turn>& turn) {
    if (turn && *turn) {
        passOn(turn->fd());
    }
}

/// Runs `sarus` as this process would become it, with all that Slurm and MPI have left open.
ExitStatus runSarus(const std::vector<std::string>& words, std::optional<Turn> turn) {
    passOnTurn(turn);
    Child child(checkErrno(::fork(), "Failed to start a process"));
    if (child.pid() == 0) {
        execute(words);
    }
    turn.reset();
    return child.wait();
}

/// Removes what is kept only until it is saved: without a name, no later step goes on with it.
void removeUnnamed(const StepRequest& request, const std::string& container) {
    if (request.name.empty()) {
        runAndCapture({.path = sarusPath(), .args = {"sarus", "rm", container}});
    }
}

bool save(const StepRequest& request, const std::string& container) {
    const AllCpus allCpus;
    const auto null = openFile("/dev/null", O_WRONLY);
    const bool isSaved = start({.path = sarusPath(),
                                .args = {"sarus", "save", "--container", "--force", container, request.save},
                                .stdoutFd = null.get()})
                             .wait()
                             .ok();
    if (isSaved) {
        removeUnnamed(request, container);
    } else {
        printError(Error(
            "The container was not saved (--container-save)",
            cat("Until the job ends, it is kept on this node: sarus save --container ", container, " FILE")));
    }
    return isSaved;
}

/// Runs the command in the container, saves that, and removes it if nobody has named it. Slurm sends signals
/// to all processes of the task: those that end the command leave the time to save it.
[[noreturn]] void runAndSave(const StepRequest& request, const std::vector<std::string>& words,
                             const std::string& container, std::optional<Turn> turn) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
        if (!isIgnoredByCaller(number)) {
            ::signal(number, [](int) {});
        }
    }
    removeUnnamed(request, container);  // as a step that was killed, of the job before it was requeued
    const auto status = runSarus(words, std::move(turn));
    const bool isSaved = save(request, container);
    std::exit(status.ok() && !isSaved ? 1 : status.shellStatus());
}

/// The lowest rank of the step's tasks on this node.
std::string firstRankOfNode() {
    const auto ranks = nonEmptyHostVariable("SLURM_GTIDS");
    return ranks ? ranks->substr(0, ranks->find(',')) : hostVariable("SLURM_PROCID").value_or("0");
}

/// Starts one container for all tasks of the step on this node.
Decision startShared(const StepRequest& request, const StepCommand& command, const std::string& container,
                     Decision decision, unsigned tasks) {
    if (!request.save.empty()) {
        removeUnnamed(request, container);  // as a step that was killed, of the job before it was requeued
    }
    auto own = request;
    own.image = namesImage(request) ? request.image : decision.image;
    const AllCpus allCpus;
    decision.action = Action::share;
    decision.target = startKeeper(
        {.sarus = sarusPath(),
         .words = [&](const std::string& edfPath) { return holdArguments(own, command, edfPath, container); },
         .edf = request.edf,
         .tasks = tasks,
         .firstRank = firstRankOfNode(),
         .ended = [&] { return request.save.empty() || save(request, container); }});
    return decision;
}

/// Slurm lets each task open its own GPUs alone: in the container of one, those of the others are missing.
bool hasOwnGpus() {
    const auto binding = nonEmptyHostVariable("SLURMD_TRES_BIND");
    return binding && !binding->ends_with(":none");
}

/// Without the right to join containers, there is no other way.
bool isContainerOfOneTask(const StepRequest& request) {
    const auto config = siteConfig();
    return config.containerPerTask || !config.allowExec || (request.name.empty() && hasOwnGpus());
}

/// The name for `sarus`: that of the request in this job, or in all of the user's where the site wants it so.
std::string ownName(const StepRequest& request, const std::string& job) {
    return request.name.empty()
               ? std::string()
               : containerName(request.name, siteConfig().containerStorage.perJob ? job : "");
}

/// The turn of a step to look for the container with this name, and to start it where there is none. As long
/// as others need for that: they may have to pull the image.
std::optional<Turn> turnOfStart(const StepRequest& request, const std::string& container) {
    return container.empty() || stepOfName(request.name)
               ? std::nullopt
               : std::optional<Turn>(std::in_place, cat("sarus-step-", ::getuid(), '-', container),
                                     Turn::Clock::time_point::max());
}

/// Slurm starts this in place of the user's command, with its arguments.
[[noreturn]] void runTask(const std::vector<std::string>& words) {
    auto request = parseRequest(hostVariable(requestVariable).value_or(""));
    const StepCommand command{hostVariable(wordVariable).value_or(""), {words.begin() + 1, words.end()}};
    const bool script = hostVariable(scriptVariable).has_value();
    const auto shared = parseNumber(hostVariable(sharedVariable).value_or(""));
    const auto tasks = parseNumber(hostVariable(tasksVariable).value_or("")).value_or(1);
    const auto localId = hostVariable("SLURM_LOCALID").value_or("0");
    const auto job = hostVariable("SLURM_JOB_ID").value_or("");
    if (firstRankOfNode() != "0") {
        request.save.clear();  // the node of the step's first task saves its container
    }
    const bool saves = !request.save.empty() && localId == "0";
    const auto named = ownName(request, job);
    const auto step = script ? "batch" : hostVariable("SLURM_STEP_ID").value_or("0");
    const auto container = named.empty() ? nameForStep(job, step) : named;
    const bool terminal = ::isatty(STDIN_FILENO) == 1;
    forgetVariables();
    std::optional<Turn> turn;
    const auto decideInTurn = [&] {
        turn = turnOfStart(request, named);
        return decide(request, named, job, script);
    };
    const auto decideForAll = [&] {
        auto decision = decideInTurn();
        const bool isShared =
            decision.action == Action::run && !script && tasks > 1 && !isContainerOfOneTask(request);
        return isShared ? startShared(request, command, container, std::move(decision),
                                      static_cast<unsigned>(tasks))
                        : decision;
    };
    const auto decision = shared ? agree(static_cast<int>(*shared), decideForAll) : decideInTurn();
    if (decision.action == Action::failed) {
        std::exit(1);
    }
    if (!namesImage(request)) {
        request.image = decision.image;
    }
    const DefinitionFile definition(request.edf);
    if (decision.action == Action::join) {
        execute(joinArguments(request, command, definition.path(), terminal, decision.target));
    }
    if (decision.action == Action::share) {
        const auto keeper = joinKeeper(decision.target, localId);
        execute(joinArguments(request, command, definition.path(), terminal, container, keeper.get()));
    }
    // Only the first task of a step on a node can have the name.
    const auto& own = saves ? container : named;
    auto run = runArguments(request, command, definition.path(), terminal,
                            localId == "0" ? own : std::string(), script);
    if (saves) {
        runAndSave(request, run, container, std::move(turn));
    }
    passOnTurn(turn);
    execute(run);
}

int runHelper(const std::vector<std::string>& words) {
    if (!words.empty() && words.front() == submitName) {
        return submit(words);
    }
    runTask(words);
}

}  // namespace

}  // namespace sarus::spank

int main(int argc, char** argv) {
    sarus::beginProcess(sarus::BlockedSignals::keep);
    sarus::speakForTask(sarus::hostVariable);
    try {
        return sarus::spank::runHelper({argv, argv + argc});
    } catch (const sarus::Error& error) {
        sarus::printError(error);
        return error.exitStatus();
    } catch (const std::exception& error) {
        sarus::printError(error.what());
        return 1;
    }
}
