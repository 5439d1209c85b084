#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>

#include "base/begin_process.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "podman_hpc/cli/commands.hpp"
#include "podman_hpc/cli/help_pages.hpp"
#include "podman_hpc/cli/podman.hpp"
#include "podman_hpc/config/podman_files.hpp"
#include "podman_hpc/modules/module.hpp"
#include "podman_hpc/shared_run/keeper.hpp"
#include "podman_hpc/shared_run/step.hpp"
#include "podman_hpc/shared_run/task.hpp"
#include "podman_hpc/shared_run/words.hpp"

namespace sarus::podman_hpc {

namespace {

std::vector<std::string> flatten(const std::vector<std::vector<std::string>>& options) {
    std::vector<std::string> words;
    for (const auto& option : options) {
        words.insert(words.end(), option.begin(), option.end());
    }
    return words;
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
}

bool hasTerminal() {
    return static_cast<bool>(UniqueFd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)));
}

/// The signals that somebody sends to this process for its task. SIGTSTP and the like act on the whole
/// process group, and so on both.
sigset_t forwardedSignals() {
    sigset_t set;
    ::sigemptyset(&set);
    // SIGCHLD too: it says that the child may have ended.
    for (const int signal : {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM,
                             SIGPROF, SIGIO, SIGURG, SIGWINCH}) {
        if (!isIgnoredByCaller(signal)) {
            ::sigaddset(&set, signal);
        }
    }
    return set;
}

/// Forwards signals that arrive while a child runs.
class Forwarder {
public:
    Forwarder() : set(forwardedSignals()) {
        ::sigprocmask(SIG_BLOCK, &set, &before);
        signals.reset(
            checkErrno(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "Failed to watch signals"));
    }
    ~Forwarder() { ::sigprocmask(SIG_SETMASK, &before, nullptr); }
    Forwarder(const Forwarder&) = delete;
    Forwarder& operator=(const Forwarder&) = delete;

    int fd() const { return signals.get(); }
    const sigset_t& maskBefore() const { return before; }

    void forward(pid_t child) const {
        signalfd_siginfo info{};
        while (::read(signals.get(), &info, sizeof info) == sizeof info) {
            if (info.ssi_signo != SIGCHLD &&
                info.ssi_code != SI_KERNEL) {  // a terminal signals the whole group
                ::kill(child, static_cast<int>(info.ssi_signo));
            }
        }
    }

private:
    sigset_t set;
    sigset_t before{};
    UniqueFd signals;
};

/// One call of shared-run.
class SharedRun {
public:
    SharedRun(const Call& theCall, const Surroundings& theSurroundings)
        : call(theCall), from(theSurroundings), settings(settingsOf(theCall, theSurroundings)) {}

    int run() {
        requirePodman(settings);
        modules = loadModules(settings.text(Key::modulesDir), printWarning);
        OptionTable ownTable;
        words = splitSharedRunWords(
            call.words,
            [&]() -> const OptionTable& {
                if (ownTable.longNames.empty()) {
                    ownTable = lookUpOptions(settings, "run");
                }
                return ownTable;
            },
            flagsOf(modules));
        if (words.help) {
            printOwnHelp(*findOwnCommand("shared-run"), modules);
            return 0;
        }
        for (const auto& warning : selectionWarnings(modules, words.flags)) {
            printWarning(warning);
        }
        execWords = settings.list(Key::sharedRunExecArgs);
        if (providePmi(from)) {
            execWords.insert(execWords.begin(), {"--preserve-fds", "1"});
        }
        append(execWords, flatten(words.exec));
        options = readExecOptions(execWords);
        requireDescriptors();
        step = findStep(settings, from, launcherOfThisProcess);
        scale = 1 + std::log2(step.tasks);
        squashDir = prepareStores(settings, podmanCommand(withCommand(call, "run")),
                                  squashDirectory(from, call.squashDir), words.image, from);
        const auto runWords = flatten(words.run);
        moduleWords = moduleArguments(modules, words.flags, from, runWords);
        prepareHook(settings, modules, words.flags, runWords);
        prepareContainer(moduleWords, runWords, from);
        changeEnvironment(podmanEnvironment(settings, from, false));
        return inContainer();
    }

private:
    std::chrono::milliseconds seconds(Key key, double factor = 1) const {
        return std::chrono::milliseconds(static_cast<long long>(settings.number(key) * factor * 1000));
    }

    void requireDescriptors() const {
        for (unsigned fd = 3; fd < 3 + options.keptDescriptors; ++fd) {
            if (::fcntl(static_cast<int>(fd), F_GETFD) < 0) {
                throw Error(cat("file descriptor ", fd,
                                " is not available - the preserve-fds option requires "
                                "that file descriptors must be passed"))
                    .setExitStatus(125);
            }
        }
    }

    /// Podman's argv up to the words of a command, with our default arguments.
    std::vector<std::string> podman(const std::string& command,
                                    const std::vector<std::string>& more = {}) const {
        auto other = call;
        other.command = command;
        other.ownSeccomp = words.seccomp;  // of two options, Podman takes the last one
        return podmanArguments(other, settings, squashDir, more, false);
    }

    /// The default options in front of the command, as the reference has them for these calls.
    std::vector<std::string> podmanInFront(const std::string& command) const {
        auto arguments = podman(command);
        for (std::size_t i = 1; i < arguments.size(); ++i) {
            if (arguments[i] == command) {
                arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
                break;
            }
        }
        return arguments;
    }

    KeeperPlan plan(const std::string& name) const {
        KeeperPlan result;
        result.containerName = name;
        result.image = words.image;
        result.fingerprint = fingerprint();
        result.tasks = step.tasks;
        result.startTimeout = seconds(Key::waitTimeout, scale);
        result.arrivalTimeout = seconds(Key::waitTimeout);
        result.podmanOptions = podmanInFront("kill");

        auto arguments = podman("run", moduleWords);
        std::vector<std::string> own{"--rm", "-d", "--name", name, "--replace", "--stop-timeout", "1"};
        append(own, flatten(words.run));
        const auto command = std::find(arguments.begin(), arguments.end(), "run");
        arguments.insert(command + 1, own.begin(), own.end());
        result.holdsLifeline =
            settings.setting(Key::sharedRunCommand).back().origin.kind == Origin::Kind::builtIn;
        if (result.holdsLifeline) {
            constexpr std::string_view inside = "/run/podman-hpc-pause";
            append(arguments,
                   {"--mount", cat("type=bind,source=", pauseProgram(), ",destination=", inside, ",ro=true"),
                    "--entrypoint", std::string(inside)});
        } else {
            result.imageCommand = settings.list(Key::sharedRunCommand);
        }
        result.runCommand = std::move(arguments);
        return result;
    }

    std::string pauseProgram() const { return cat(from.prefix, "/libexec/podman-hpc-pause"); }

    /// Tasks of one container say the same about it; their commands and variables may differ.
    std::string fingerprint() const {
        auto all = words.runOnly;
        append(all, {words.flags.begin(), words.flags.end()});
        append(all, {words.image, call.logLevel, std::to_string(step.tasks)});
        return sha256Hex(join(all, std::string_view("\0", 1)));
    }

    std::string nameFor(const std::string& seat) const { return cat("uid-", from.uid, '-', seat); }

    int inContainer() {
        const MeetingPlace place(cat(settings.text(Key::runRoot), "/shared-run"), from.uid);
        const auto startTimeout = seconds(Key::waitTimeout, scale);
        const auto localId = step.localId.empty() ? "-" : step.localId;
        const auto hello = cat("hello ", join(splitWords(localId), "_"), ' ', fingerprint());
        keeper = place.join(step.identity, hello, Clock::now() + startTimeout, [&](MeetingPlace::Seat seat) {
            const auto name = nameFor(seat.name);
            startKeeper(plan(name), place, std::move(seat));
        });
        constexpr auto margin = std::chrono::seconds(5);
        if (!waitForInput(keeper.get(), Clock::now() + startTimeout + margin)) {
            throw Error("Timeout waiting for shared-run start");
        }
        auto message = receiveMessage(keeper.get());
        if (!message) {
            throw Error("The keeper of the shared container has ended");
        }
        auto answer = split(message->text, ' ');
        if (answer.size() > 2 && answer[0] == "failed") {
            return reportFailure(message->text, answer[1]);
        }
        container = answer.size() > 1 ? answer[1] : "";
        const int status = runTask(std::move(*message), answer);
        return finish(status);
    }

    /// The reason is Podman's own text, or ours; only one task gets it.
    static int reportFailure(const std::string& message, const std::string& status) {
        const auto reason = message.substr(cat("failed ", status, ' ').size());
        printError(reason.empty()                  ? "Error: The shared container did not start... Exiting"
                   : reason.starts_with("Error: ") ? reason
                                                   : cat("Error: ", reason, "... Exiting"));
        return static_cast<int>(parseNumber(status).value_or(1));
    }

    int runTask(Message message, const std::vector<std::string>& answer) {
        const Forwarder forwarder;
        // The image could type into the caller's terminal. Limits hold in the container's cgroup only.
        const bool mayEnter = answer[0] == "enter" && answer.size() == 3 && !words.command.empty() &&
                              !options.terminal && !options.others && !words.limits && !hasTerminal();
        if (mayEnter && answer[2].size() == message.fds.size()) {
            const ContainerEntry entry(answer[2], std::move(message.fds));
            if (auto task =
                    startTask(entry, pauseProgram(), options, words.command, forwarder.maskBefore())) {
                const int status = waitFor(*task, forwarder);
                return status == 128 + SIGKILL && entry.hasEnded() ? lose() : status;
            }
        }
        return runByPodman(forwarder);
    }

    /// As the reference does; slow, but it works wherever Podman does.
    int runByPodman(const Forwarder& forwarder) {
        const auto give = Clock::now() + seconds(Key::waitTimeout, scale);
        const auto query = [&](const std::vector<std::string>& command) {
            auto arguments = podmanInFront(command.front());
            append(arguments, command);
            return runAndCapture({.path = arguments.front(), .args = arguments}).status.ok();
        };
        while (!query({"container", "exists", container})) {
            if (Clock::now() >= give) {
                throw Error("Timeout waiting for shared-run start");
            }
            const auto pause = std::max(seconds(Key::waitPollInterval, scale), pollAtLeast);
            if (waitForInput(keeper.get(), Clock::now() + pause)) {
                return loseContainer();
            }
        }
        query({"wait", "--condition", "running", container});
        auto arguments = podman("exec");
        append(arguments, execWords);
        arguments.push_back(container);
        append(arguments, words.command);
        Command command{.path = arguments.front(), .args = arguments, .stdinFd = 0};
        for (unsigned fd = 0; fd < options.keptDescriptors; ++fd) {
            command.keepFds.push_back(static_cast<int>(fd) + 3);
        }
        auto task = start(command);
        return waitFor(task, forwarder);
    }

    /// Waits for the task, forwards signals, and ends it if the keeper is gone, which never happens by
    /// itself.
    int waitFor(Child& task, const Forwarder& forwarder) {
        std::array<pollfd, 2> waiting{{{forwarder.fd(), POLLIN, 0}, {keeper.get(), POLLIN, 0}}};
        for (;;) {
            if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
                throwErrno("Failed to wait for the task");
            }
            forwarder.forward(task.pid());
            if (const auto status = task.waitUntil(Clock::now())) {
                return status->shellStatus();
            }
            if (waiting[1].revents == 0) {
                continue;
            }
            ::kill(task.pid(), SIGKILL);
            task.wait();
            return loseContainer();
        }
    }

    /// The keeper speaks, or is gone, when the container is.
    int loseContainer() {
        if (!receiveMessage(keeper.get())) {
            removeContainer();
        }
        return lose();
    }

    static int lose() {
        printError("Error: The shared container has ended... Exiting");
        return 1;
    }

    /// What the keeper would have done.
    void removeContainer() const {
        auto arguments = podmanInFront("rm");
        append(arguments, {"rm", "-f", "-t", "0", "--ignore", container});
        runAndCapture({.path = arguments.front(), .args = arguments});
    }

    /// The last task stays until the container is gone.
    int finish(int status) {
        sendMessage(keeper.get(), "done");
        ::shutdown(keeper.get(), SHUT_WR);
        constexpr auto margin = std::chrono::seconds(30);  // Podman's time for the removal
        const auto deadline = Clock::now() + seconds(Key::waitTimeout) + margin;
        while (waitForInput(keeper.get(), deadline)) {
            const auto message = receiveMessage(keeper.get());
            if (!message) {
                break;
            }
            if (message->text.starts_with("missing ")) {
                printWarning(cat(message->text.substr(8), " of ", step.tasks,
                                 " tasks of this node have not used the shared container"));
            }
        }
        return status;
    }

    static constexpr std::chrono::milliseconds pollAtLeast{10};

    const Call& call;
    const Surroundings& from;
    const Settings settings;
    std::vector<Module> modules{};
    SharedRunWords words{};
    std::vector<std::string> moduleWords{};
    std::vector<std::string> execWords{};
    ExecOptions options{};
    Step step{};
    double scale = 1;
    std::string squashDir{};  ///< as Podman can read it
    UniqueFd keeper{};
    std::string container{};
};

}  // namespace

int sharedRun(const Call& call, const Surroundings& from) {
    return SharedRun(call, from).run();
}

}  // namespace sarus::podman_hpc
