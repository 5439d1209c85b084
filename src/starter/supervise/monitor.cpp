#include "starter/supervise/monitor.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/entry/termination.hpp"
#include "starter/supervise/read_back.hpp"

namespace sarus::starter {

namespace {

sigset_t allSignals() {
    sigset_t all;
    ::sigfillset(&all);
    return all;
}

ExitStatus fromWaitStatus(int status) {
    if (WIFSIGNALED(status)) {
        return {.code = 0, .signal = WTERMSIG(status)};
    }
    return {.code = WEXITSTATUS(status), .signal = 0};
}

/// Every runtime gives the payload a session and a process group of its own, so a terminal would stop that
/// group.
void signalPayload(pid_t runtime, int number) {
    const auto payloads = Process(runtime).children();
    // They belong to the user, as this process does. CAP_KILL could only hit a stranger that reuses the pid
    // of a payload that has just ended.
    const WithoutCapabilities userAlone;
    for (const auto& payload : payloads) {
        if (::kill(-payload.pid(), number) != 0) {
            payload.signal(number);
        }
    }
}

/// True for processes of a container: unlike hooks, they cannot gain privileges or leave its user namespace.
bool isConfined(const Process& process) {
    const auto status = process.read("status");
    const Process self(::getpid());
    return statusField(status, "NoNewPrivs") == "1" && statusField(status, "Uid") == cat(::getuid()) &&
           (statusField(self.read("status"), "NoNewPrivs") != "1" ||
            process.read("uid_map") != self.read("uid_map"));
}

/// Whether a signal ends a process that does nothing but print.
bool endsRest(int number) {
    switch (number) {
        case SIGCHLD:
        case SIGPIPE:
        case SIGWINCH:
        case SIGURG:
        case SIGCONT:
        case SIGTSTP:
        case SIGTTIN:
        case SIGTTOU:
            return false;
        default:
            return true;
    }
}

bool isReadable(int fd) {
    pollfd source{fd, POLLIN, 0};
    return ::poll(&source, 1, 0) > 0;
}

/// A process whose end requires ending its companions.
class Leader {
public:
    explicit Leader(const Process& theProcess)
        : process(theProcess), end(static_cast<int>(::syscall(SYS_pidfd_open, theProcess.pid(), 0))) {}

    bool isOver() const { return !process.isRunning(); }
    /// -1 if the process cannot be polled (before Linux 5.3).
    int descriptor() const noexcept { return end.get(); }

private:
    Process process;
    UniqueFd end;
};

class Watch {
public:
    Watch(Child child, const Reaped& onReaped, const WatchedThings& theThings)
        : runtime(std::move(child)), reaped(onReaped), things(theThings), servers(theThings.servers) {
        if (things.container != nullptr) {
            leaders.emplace_back(*things.container);
        }
    }

    RuntimeEnd run() {
        const auto all = allSignals();
        const UniqueFd signals(
            checkErrno(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK), "Failed to watch signals"));
        while (true) {
            wait(signals.get());
            signalfd_siginfo info{};
            while (::read(signals.get(), &info, sizeof info) == sizeof info) {
                handle(static_cast<int>(info.ssi_signo));
            }
            if (reapChildren()) {  // after reading its SIGCHLD: a later one ends the next wait
                break;
            }
            if (things.hookLog != nullptr) {
                things.hookLog->forward();
            }
            if (things.program != nullptr) {
                noteStart();
            }
            if (unread) {
                readBack();
            }
            if (things.terminal != nullptr && !things.terminal->forward(programNoted)) {
                stop();  // as the kernel stops a job that reads in the background
            }
            endWithOwner();
            lookForServers();
            if (isOver()) {
                killLeftovers();
            }
        }
        if (things.terminal != nullptr) {
            drainTerminal(signals.get());
            things.terminal->finish();
        }
        if (things.hookLog != nullptr) {
            things.hookLog->finish();
        }
        if (things.program != nullptr) {
            things.program->read();
            end.programStarted = things.program->started();
        }
        return end;
    }

private:
    /// Returns when something has happened or a check is due.
    void wait(int signals) const {
        constexpr int lookMilliseconds = 20;
        bool look = isOver() || unread || ending || (things.program != nullptr && !programNoted);
        std::vector<pollfd> sources{{signals, POLLIN, 0}};
        if (things.hookLog != nullptr) {
            for (const int fifo : things.hookLog->descriptors()) {
                sources.push_back({fifo, POLLIN, 0});
            }
        }
        if (!orphaned) {  // afterwards they are always ready
            sources.push_back({things.jobStep, POLLIN, 0});
            if (things.terminal != nullptr) {
                things.terminal->addTo(sources);
            }
        }
        for (const auto& server : servers) {
            sources.push_back({server.process, POLLIN, 0});
        }
        for (const auto& leader : leaders) {
            look = look || leader.descriptor() < 0;
            if (!leader.isOver()) {
                sources.push_back({leader.descriptor(), POLLIN, 0});
            }
        }
        ::poll(sources.data(), sources.size(), look ? lookMilliseconds : -1);
    }

    /// Waits until the user has the rest of the output, or a signal ends that.
    void drainTerminal(int signals) {
        std::vector<pollfd> sources{{signals, POLLIN, 0}};
        while (!things.terminal->drain(sources) && !things.terminal->hasVanished()) {
            ::poll(sources.data(), sources.size(), -1);
            signalfd_siginfo info{};
            while (::read(signals, &info, sizeof info) == sizeof info) {
                if (const auto number = static_cast<int>(info.ssi_signo); endsRest(number)) {
                    return;
                }
            }
            sources.resize(1);
        }
    }

    bool isOver() const {
        return std::any_of(leaders.begin(), leaders.end(),
                           [](const Leader& leader) { return leader.isOver(); });
    }

    /// Ends the container whose terminal or job step is gone. The kernel reports a lost terminal only to the
    /// session leader.
    void endWithOwner() {
        constexpr std::chrono::seconds patience{3};  // for the signal, and for the runtime after SIGKILL
        const bool noTerminal = things.terminal != nullptr && things.terminal->hasVanished();
        if (!orphaned && (noTerminal || isReadable(things.jobStep))) {
            orphaned = true;
            ending = std::chrono::steady_clock::now();
            handle(noTerminal ? SIGHUP : SIGTERM);
            handle(SIGCONT);
        }
        const auto since = ending ? std::chrono::steady_clock::now() - *ending : std::chrono::seconds(0);
        if (since > patience) {
            killDescendants(Process(runtime.pid()), 1);
        }
        if (since > 2 * patience) {
            end.lastForwarded = SIGKILL;
            ::kill(runtime.pid(), SIGKILL);
        }
    }

    void noteStart() {
        const auto start = things.program->read();
        if (!start) {
            return;
        }
        programNoted = true;
        startedAt = start->time;
        if (end.startEndedBy != 0) {
            killDescendants(Process(runtime.pid()), 1);  // its hooks have ignored the signal
        }
        // If it is gone it has ended, and a stranger may have its pid.
        const auto children = Process(runtime.pid()).children();
        const auto found = std::find_if(children.begin(), children.end(),
                                        [&](const Process& child) { return child.pid() == start->pid; });
        leaders.emplace_back(found == children.end() ? Process(0) : *found);
        if (found != children.end() && things.planned != nullptr) {
            unread = *found;
        }
    }

    /// The servers of other containers: only their parents learn how they ended.
    void lookForServers() {
        std::erase_if(servers, [](const ForeignServer& server) {
            pollfd process{server.process, POLLIN, 0};
            const bool hasEnded = ::poll(&process, 1, 0) == 1;
            if (hasEnded) {
                printError(cat("The process which provides ", server.provides,
                               " was ended: the container cannot use its files any more"));
            }
            return hasEnded;
        });
    }

    /// Ends a program that is not confined as planned.
    void readBack() {
        const auto difference = findDifference(*unread, Process(runtime.pid()), *things.planned);
        if (difference && !difference->empty()) {
            end.difference = *difference;
            unread->signal(SIGKILL);
        }
        if (difference) {
            unread.reset();
        }
    }

    /// crun continues until the last process left by the program is gone, and runc until nobody holds the
    /// write end of its streams.
    void killLeftovers() const {
        const auto isHook = [this](const Process& process) {
            return process.started() >= startedAt && !isConfined(process);
        };
        killDescendants(Process(runtime.pid()), 1,
                        things.hooksFollow ? isHook : std::function<bool(const Process&)>());
    }

    void handle(int number) {
        switch (number) {
            case SIGCHLD:
            case SIGPIPE:
                break;
            case SIGTSTP:
            case SIGTTIN:
            case SIGTTOU:
                stop();
                break;
            case SIGCONT:
                if (std::exchange(stopped, false)) {
                    ::kill(runtime.pid(), SIGCONT);
                }
                signalPayload(runtime.pid(), SIGCONT);
                break;
            default:
                if (number == SIGWINCH && things.terminal != nullptr) {
                    things.terminal->copySize();
                }
                end.lastForwarded = number;
                ::kill(runtime.pid(), number);
                if (isTermination(number)) {
                    endStart(number);
                }
        }
    }

    /// Ends a container whose program does not run yet. The runtime would pass the signal on to the program
    /// only after the hooks, which may take minutes.
    void endStart(int number) {
        if (things.program == nullptr || programNoted) {
            return;
        }
        noteStart();
        if (programNoted || programRuns()) {
            return;
        }
        end.startEndedBy = number;
        if (!ending) {
            ending = std::chrono::steady_clock::now();
        }
        for (const auto& process : descendantsOf(Process(runtime.pid()))) {
            process.signal(number);
        }
    }

    /// Runc reports the program only after it has started it, and passes on what came before that.
    bool programRuns() const {
        const auto children = Process(runtime.pid()).children();
        return std::any_of(children.begin(), children.end(), [](const Process& child) {
            return hasExecutedProgram(child.read("stat")) && isConfined(child);
        });
    }

    void stop() {
        const auto payloads = Process(runtime.pid()).children();
        signalPayload(runtime.pid(), SIGSTOP);
        stopped = ::kill(runtime.pid(), SIGSTOP) == 0;  // runc would go on reading input meant for others
        waitUntilStopped(payloads);
        if (things.terminal != nullptr) {
            things.terminal->releaseKeyboard();
        }
        ::kill(::getpid(), SIGSTOP);  // a pending SIGCONT resumes it
    }

    /// A process that has not noticed its signal yet would take what is typed for the shell. On a busy node
    /// that takes a while.
    void waitUntilStopped(const std::vector<Process>& payloads) const {
        constexpr int attempts = 1000;  // of 1 ms: nobody waits for ever at a keyboard
        for (int attempt = 0; attempt < attempts; ++attempt) {
            auto stopping = descendantsOf(Process(::getpid()));
            std::erase_if(stopping, [&](const Process& process) {
                return process.pid() != runtime.pid() &&
                       std::none_of(payloads.begin(), payloads.end(),
                                    [group = process.group()](const Process& payload) {
                                        return payload.pid() == group;
                                    });
            });
            if (std::all_of(stopping.begin(), stopping.end(),
                            [](const Process& process) { return process.hasStopped(); })) {
                return;
            }
            ::usleep(1000);
        }
    }

    /// True if the runtime has ended.
    bool reapChildren() {
        bool ended = false;
        int status = 0;
        pid_t pid = 0;
        while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == runtime.pid()) {
                end.status = fromWaitStatus(status);
                runtime.release();
                ended = true;
            } else {
                reaped(pid, fromWaitStatus(status));
            }
        }
        if (pid < 0 && errno == ECHILD && !ended) {
            throw Error("The OCI runtime was lost");
        }
        return ended;
    }

    Child runtime;
    const Reaped& reaped;
    const WatchedThings& things;
    std::vector<Leader> leaders;
    bool programNoted = false;
    std::vector<ForeignServer> servers;
    std::optional<Process> unread;  ///< the program, until its confinement is known
    bool stopped = false;           ///< stop() stopped the runtime
    std::uint64_t startedAt = 0;    ///< when the program was first seen running
    bool orphaned = false;          ///< its terminal or job step has ended
    std::optional<std::chrono::steady_clock::time_point> ending;  ///< since when it is to end
    RuntimeEnd end;
};

}  // namespace

RuntimeEnd watchRuntime(Child runtime, const Reaped& reaped, const WatchedThings& things) {
    return Watch(std::move(runtime), reaped, things).run();
}

int exitStatusOf(const RuntimeEnd& end, const std::string& runtimePath) {
    if (!end.difference.empty()) {
        throw Error(
            cat("The OCI runtime ", printable(runtimePath),
                " did not confine the container as planned: ", end.difference),
            "The container was ended. Set `runcPath` in sarus.json to a runtime that is known to work");
    }
    if (end.startEndedBy != 0) {
        return 128 + end.startEndedBy;
    }
    if (end.status.signal == 0) {
        return end.status.code != 0 && !end.programStarted ? 1 : end.status.code;
    }
    if (end.status.signal == end.lastForwarded) {
        return end.status.shellStatus();  // the signal came before the runtime could forward it
    }
    throw Error(cat("The OCI runtime ", printable(runtimePath), " was killed by signal ", end.status.signal));
}

void reapLeftovers(const Reaped& reaped, const std::vector<pid_t>& spared) {
    constexpr int rounds = 50;
    sigset_t childEnded;
    ::sigemptyset(&childEnded);
    ::sigaddset(&childEnded, SIGCHLD);
    for (int round = 0; round < rounds; ++round) {
        pid_t pid = 0;
        int status = 0;
        while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
            reaped(pid, fromWaitStatus(status));
        }
        if (pid < 0) {
            return;
        }
        bool anyLeft = false;
        for (const auto& child : Process(::getpid()).children()) {
            if (std::find(spared.begin(), spared.end(), child.pid()) == spared.end()) {
                child.signal(SIGKILL);
                anyLeft = true;
            }
        }
        if (!anyLeft) {
            return;
        }
        const timespec patience{.tv_sec = 0, .tv_nsec = 100'000'000};
        ::sigtimedwait(&childEnded, nullptr, &patience);
    }
    logWarn("Runtime", "Some processes of the container could not be ended");
}

}  // namespace sarus::starter
