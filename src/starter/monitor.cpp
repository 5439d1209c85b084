#include "starter/monitor.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "starter/credentials.hpp"
#include "starter/process_tree.hpp"
#include "starter/read_back.hpp"

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

/// The payload leads a session and a process group of its own, as every runtime makes it; so the group is what a terminal would
/// stop.
void signalPayload(pid_t runtime, int number) {
    const auto payloads = Process(runtime).children();
    // They are the user's, as we are; CAP_KILL could only hit a stranger which has got the number of a payload that has just
    // ended.
    const WithoutCapabilities userAlone;
    for (const auto& payload : payloads) {
        if (::kill(-payload.pid(), number) != 0) {
            payload.signal(number);
        }
    }
}

/// True for what runs in a container: it can neither gain privileges nor leave its user namespace, which hooks are not in.
bool isConfined(const Process& process) {
    const auto status = process.read("status");
    const Process self(::getpid());
    return statusField(status, "NoNewPrivs") == "1" && statusField(status, "Uid") == cat(::getuid()) &&
           (statusField(self.read("status"), "NoNewPrivs") != "1" || process.read("uid_map") != self.read("uid_map"));
}

/// A process whose end ends what runs beside it.
class Leader {
public:
    explicit Leader(const Process& theProcess)
        : process(theProcess), end(static_cast<int>(::syscall(SYS_pidfd_open, theProcess.pid(), 0))) {}

    bool isOver() const { return !process.isRunning(); }
    /// -1 where a process cannot be polled (before Linux 5.3).
    int descriptor() const noexcept { return end.get(); }

private:
    Process process;
    UniqueFd end;
};

class Watch {
public:
    Watch(Child child, const std::function<void(pid_t)>& onReaped, const WatchedThings& theThings)
        : runtime(std::move(child)), reaped(onReaped), things(theThings) {
        if (things.container != nullptr) {
            leaders.emplace_back(*things.container);
        }
    }

    RuntimeEnd run() {
        const auto all = allSignals();
        const UniqueFd signals(checkErrno(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK), "Failed to watch signals"));
        while (true) {
            wait(signals.get());
            signalfd_siginfo info{};
            while (::read(signals.get(), &info, sizeof info) == sizeof info) {
                handle(static_cast<int>(info.ssi_signo));
            }
            if (reapChildren()) {  // after its SIGCHLD was read: one that comes now ends the next wait
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
            if (isOver()) {
                killLeftovers();
            }
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
    /// Returns when something has happened, or when it is time to look.
    void wait(int signals) const {
        constexpr int lookMilliseconds = 20;
        bool look = isOver() || unread || (things.program != nullptr && !programNoted);
        std::vector<pollfd> sources{{signals, POLLIN, 0}};
        if (things.hookLog != nullptr) {
            sources.push_back({things.hookLog->descriptor(), POLLIN, 0});
        }
        for (const auto& leader : leaders) {
            look = look || leader.descriptor() < 0;
            if (!leader.isOver()) {
                sources.push_back({leader.descriptor(), POLLIN, 0});
            }
        }
        ::poll(sources.data(), sources.size(), look ? lookMilliseconds : -1);
    }

    bool isOver() const {
        return std::any_of(leaders.begin(), leaders.end(), [](const Leader& leader) { return leader.isOver(); });
    }

    void noteStart() {
        const auto start = things.program->read();
        if (!start) {
            return;
        }
        programNoted = true;
        startedAt = start->time;
        // One that is not there any more has ended, and its number may be a stranger's.
        const auto children = Process(runtime.pid()).children();
        const auto found =
            std::find_if(children.begin(), children.end(), [&](const Process& child) { return child.pid() == start->pid; });
        leaders.emplace_back(found == children.end() ? Process(0) : *found);
        if (things.planned != nullptr && found != children.end()) {
            unread = *found;
        }
    }

    /// Ends a program which is not confined as planned.
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

    /// crun goes on until the last process is gone that the program has left behind, and runc until nobody writes any more.
    void killLeftovers() const {
        const auto isHook = [this](const Process& process) { return process.started() >= startedAt && !isConfined(process); };
        killDescendants(Process(runtime.pid()), 1, things.hooksFollow ? isHook : std::function<bool(const Process&)>());
        if (!things.helpers.empty()) {  // `runc exec` leaves orphans to its parent
            killDescendants(Process(::getpid()), 1, [this](const Process& process) {
                return process.pid() == runtime.pid() ||
                       std::find(things.helpers.begin(), things.helpers.end(), process.pid()) != things.helpers.end();
            });
        }
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
                end.lastForwarded = number;
                ::kill(runtime.pid(), number);
        }
    }

    void stop() {
        signalPayload(runtime.pid(), SIGSTOP);
        stopped = ::kill(runtime.pid(), SIGSTOP) == 0;  // runc would go on reading what is typed for others
        ::kill(::getpid(), SIGSTOP);                    // goes on with a SIGCONT, which is pending then
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
                reaped(pid);
            }
        }
        if (pid < 0 && errno == ECHILD && !ended) {
            throw Error("The OCI runtime was lost");
        }
        return ended;
    }

    Child runtime;
    const std::function<void(pid_t)>& reaped;
    const WatchedThings& things;
    std::vector<Leader> leaders;
    bool programNoted = false;
    std::optional<Process> unread;  ///< the program, as long as it is not known how it is confined
    bool stopped = false;           ///< the runtime, by stop()
    std::uint64_t startedAt = 0;    ///< when the program was seen to run
    RuntimeEnd end;
};

}  // namespace

int takePendingTermination() {
    sigset_t terminating;
    ::sigemptyset(&terminating);
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2}) {
        ::sigaddset(&terminating, number);
    }
    const timespec now{};
    const int number = ::sigtimedwait(&terminating, nullptr, &now);
    return number > 0 ? number : 0;
}

RuntimeEnd watchRuntime(Child runtime, const std::function<void(pid_t)>& reaped, const WatchedThings& things) {
    return Watch(std::move(runtime), reaped, things).run();
}

int exitStatusOf(const RuntimeEnd& end, const std::string& runtimePath) {
    if (!end.difference.empty()) {
        throw Error(
            cat("The OCI runtime ", printable(runtimePath), " did not confine the container as planned: ", end.difference),
            "The container was ended. Set `runcPath` in sarus.json to a runtime which is known to work");
    }
    if (end.status.signal == 0) {
        return end.status.code != 0 && !end.programStarted ? 1 : end.status.code;
    }
    if (end.status.signal == end.lastForwarded) {
        return end.status.shellStatus();  // the signal came before the runtime could pass it on
    }
    throw Error(cat("The OCI runtime ", printable(runtimePath), " was killed by signal ", end.status.signal));
}

void reapLeftovers(const std::function<void(pid_t)>& reaped, pid_t spared) {
    constexpr int rounds = 50;
    sigset_t childEnded;
    ::sigemptyset(&childEnded);
    ::sigaddset(&childEnded, SIGCHLD);
    for (int round = 0; round < rounds; ++round) {
        pid_t pid = 0;
        while ((pid = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
            reaped(pid);
        }
        if (pid < 0) {
            return;
        }
        bool anyLeft = false;
        for (const auto& child : Process(::getpid()).children()) {
            if (child.pid() != spared) {
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
