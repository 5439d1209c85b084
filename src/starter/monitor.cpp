#include "starter/monitor.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "starter/credentials.hpp"
#include "starter/process_tree.hpp"

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
    // It is the user's, as we are; CAP_KILL could only hit a stranger which has got the number of a payload that has just ended.
    const WithoutCapabilities userAlone;
    for (const auto& payload : Process(runtime).children()) {
        if (::kill(-payload.pid(), number) != 0) {
            payload.signal(number);
        }
    }
}

class Watch {
public:
    Watch(Child child, const std::function<void(pid_t)>& onReaped, HookLog* log, const Process* besides)
        : runtime(std::move(child)), reaped(onReaped), hookLog(log), container(besides) {}

    RuntimeEnd run() {
        if (hookLog != nullptr || container != nullptr) {
            watchSeveral();
            return end;
        }
        const auto all = allSignals();
        while (!reapChildren()) {
            siginfo_t info{};
            const int number = ::sigwaitinfo(&all, &info);
            if (number > 0) {
                handle(number);
            }
        }
        return end;
    }

private:
    /// Waits for signals, for the hooks' messages and for the end of the container at once.
    void watchSeveral() {
        constexpr int pollMilliseconds = 100;  // where a process cannot be polled (before Linux 5.3)
        const auto all = allSignals();
        const UniqueFd signals(checkErrno(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK), "Failed to watch signals"));
        const UniqueFd containerEnd(container == nullptr ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, container->pid(), 0)));
        while (!reapChildren()) {
            const int patience = container == nullptr || (containerEnd && container->isRunning()) ? -1 : pollMilliseconds;
            std::array<pollfd, 3> sources{pollfd{signals.get(), POLLIN, 0},
                                          pollfd{hookLog == nullptr ? -1 : hookLog->descriptor(), POLLIN, 0},
                                          pollfd{containerEnd.get(), POLLIN, 0}};
            ::poll(sources.data(), sources.size(), patience);
            if (hookLog != nullptr) {
                hookLog->forward();
            }
            if (container != nullptr && !container->isRunning()) {
                killDescendants(Process(runtime.pid()), 1);
            }
            signalfd_siginfo info{};
            while (::read(signals.get(), &info, sizeof info) == sizeof info) {
                handle(static_cast<int>(info.ssi_signo));
            }
        }
        if (hookLog != nullptr) {
            hookLog->finish();
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
                signalPayload(runtime.pid(), SIGCONT);
                break;
            default:
                end.lastForwarded = number;
                ::kill(runtime.pid(), number);
        }
    }

    void stop() {
        signalPayload(runtime.pid(), SIGSTOP);
        ::kill(::getpid(), SIGSTOP);  // goes on with a SIGCONT, which is pending then
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
    HookLog* hookLog;
    const Process* container;
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

RuntimeEnd watchRuntime(Child runtime, const std::function<void(pid_t)>& reaped, HookLog* hookLog, const Process* container) {
    return Watch(std::move(runtime), reaped, hookLog, container).run();
}

int exitStatusOf(const RuntimeEnd& end, const std::string& runtimePath) {
    if (end.status.signal == 0) {
        return end.status.code;
    }
    if (end.status.signal == end.lastForwarded) {
        return end.status.shellStatus();  // the signal came before the runtime could pass it on
    }
    throw Error(cat("The OCI runtime ", printable(runtimePath), " was killed by signal ", end.status.signal));
}

void reapLeftovers(const std::function<void(pid_t)>& reaped) {
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
        for (const auto& child : Process(::getpid()).children()) {
            child.signal(SIGKILL);
        }
        const timespec patience{.tv_sec = 0, .tv_nsec = 100'000'000};
        ::sigtimedwait(&childEnded, nullptr, &patience);
    }
    logWarn("Runtime", "Some processes of the container could not be ended");
}

}  // namespace sarus::starter
