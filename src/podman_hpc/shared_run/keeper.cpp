#include "podman_hpc/shared_run/keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>

#include "base/background.hpp"
#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/members.hpp"
#include "base/pipe.hpp"
#include "base/process_tree.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "base/time_left.hpp"
#include "podman_hpc/shared_run/cgroups.hpp"
#include "podman_hpc/shared_run/container_entry.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr int lifelineNumber = 3;                   // in the container, and so in this process
constexpr auto patience = std::chrono::seconds(5);  // for what Podman's own processes do at the end

std::string readFromStart(int fd) {
    std::string text(16U << 10U, '\0');
    const auto size = ::pread(fd, text.data(), text.size(), 0);
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return std::string(trim(text));
}

std::optional<pid_t> readPid(const std::string& path) {
    try {
        const auto number = parseNumber(trim(readFile(path, 64)));
        return number && *number > 1 ? std::optional(static_cast<pid_t>(*number)) : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

class Keeper {
public:
    Keeper(KeeperPlan thePlan, const MeetingPlace& thePlace, MeetingPlace::Seat theSeat, Pipe theLifeline)
        : plan(std::move(thePlan)),
          place(thePlace),
          seat(std::move(theSeat.name)),
          lifeline(std::move(theLifeline)),
          tasks(std::move(theSeat.listener), plan.tasks) {
        sigset_t child;
        ::sigemptyset(&child);
        ::sigaddset(&child, SIGCHLD);
        ::sigprocmask(SIG_BLOCK, &child, nullptr);
        children.reset(
            checkErrno(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK), "Failed to watch processes"));
    }

    void run() {
        startContainer();
        while (phase != Phase::gone) {
            step();
        }
        place.remove(seat);
    }

private:
    /// `failed`: the container is gone, and late tasks hear the reason.
    enum class Phase { starting, running, ending, killing, removing, failed, gone };

    std::string file(std::string_view suffix) const { return cat(place.path(), '/', seat, suffix); }

    void startContainer() {
        auto arguments = plan.runCommand;
        arguments.insert(arguments.end(), {"--pidfile", file(".pid"), "--conmon-pidfile", file(".conmon")});
        if (plan.holdsLifeline) {
            arguments.insert(arguments.end(), {"--preserve-fds", "1"});
        }
        arguments.push_back(plan.image);
        arguments.insert(arguments.end(), plan.imageCommand.begin(), plan.imageCommand.end());
        output = makeMemoryFile("id");
        errors = makeMemoryFile("errors");
        Command command{
            .path = arguments.front(), .args = arguments, .stdoutFd = output.get(), .stderrFd = errors.get()};
        if (plan.holdsLifeline) {
            command.keepFds = {lifelineNumber};
        }
        startPodman(command);
        lifeline.reader.reset();
        deadline = Clock::now() + plan.startTimeout;
        arrivalDeadline = Clock::now() + plan.arrivalTimeout;
    }

    void startPodman(const Command& command) {
        try {
            podman = start(command).release();
        } catch (const Error& error) {
            podman = -1;
            fail(1, error.what());
        }
    }

    void runPodman(std::initializer_list<std::string> words) {
        auto arguments = plan.podmanOptions;
        arguments.insert(arguments.end(), words);
        const auto null = openFile("/dev/null", O_WRONLY);
        startPodman(
            {.path = arguments.front(), .args = arguments, .stdoutFd = null.get(), .stderrFd = null.get()});
    }

    void step() {
        std::vector<pollfd> waiting{{children.get(), POLLIN, 0}};
        tasks.addTo(waiting);
        if (::poll(waiting.data(), waiting.size(), timeout()) < 0 && errno != EINTR) {
            throwErrno("Failed to wait for tasks");
        }
        reapChildren();
        tasks.handle(&waiting[1], [this](Member& task, const std::string& text) { greet(task, text); });
        // The last task waits for the end of the container, no other one does.
        tasks.release(tasks.active() == 0 && !failure);
        decide();
    }

    int timeout() const {
        auto next = deadline;
        if (phase == Phase::running) {
            const bool mayEnd = tasks.active() == 0;
            if (!mayEnd) {
                return -1;
            }
            next = arrivalDeadline;
        } else if (phase == Phase::failed) {
            next = arrivalDeadline;
        }
        return millisecondsUntil(next);
    }

    void reapChildren() {
        signalfd_siginfo info{};
        while (::read(children.get(), &info, sizeof info) > 0) {
        }
        int status = 0;
        for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
            const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            if (pid == podman) {
                podman = -1;
                podmanEnded(code);
            } else if (pid == conmon) {
                conmon = -1;
                conmonEnded(code);
            } else {
                endedBefore.push_back(pid);
            }
        }
    }

    void podmanEnded(int status) {
        if (phase == Phase::starting) {
            status == 0 ? containerStarted() : fail(status, readFromStart(errors.get()));
        } else if (phase == Phase::killing) {
            phase = Phase::removing;
            runPodman({"rm", containerId()});
        } else if (phase == Phase::removing) {
            removed = true;
        }
    }

    /// conmon ends as `podman container cleanup --rm`.
    void conmonEnded(int status) {
        if (phase == Phase::running || phase == Phase::starting) {
            fail(1, "The shared container has ended");
            if (status != 0) {
                removeByForce();
            }
        } else if (phase == Phase::ending) {
            if (status != 0) {
                removeByForce();
            }
        }
    }

    /// The container's id, or its name until Podman has told the id.
    std::string containerId() const {
        const auto id = readFromStart(output.get());
        return id.empty() ? plan.containerName : id;
    }

    void containerStarted() {
        const auto conmonPid = readPid(file(".conmon"));
        const auto pid = readPid(file(".pid"));
        if (conmonPid) {
            if (std::find(endedBefore.begin(), endedBefore.end(), *conmonPid) != endedBefore.end()) {
                fail(1, "The shared container has ended: shared_run_command ended at once");
                return;
            }
            conmon = *conmonPid;
            // Who kills all processes in the cgroup of the step does not kill root's container, whose cgroup
            // is another one: somebody must be left to end it.
            joinCgroupsOf(conmon);
        }
        phase = Phase::running;
        if (pid && conmonPid) {
            entry = ContainerEntry::of(*pid, *conmonPid);
            if (!entry && !Process(*pid).isRunning()) {
                fail(1, "The shared container has ended: shared_run_command ended at once");
                return;
            }
        }
        tasks.forEachActive([this](const Member& task) { letIn(task); });
    }

    void letIn(const Member& task) {
        if (entry) {
            sendMessage(task.socket.get(), cat("enter ", containerId(), ' ', entry->kinds()),
                        entry->descriptors());
        } else {
            sendMessage(task.socket.get(), cat("exec ", containerId()));
        }
    }

    void fail(int status, const std::string& reason) {
        failure = {status, reason};
        bool isFirst = true;  // one task tells the reason; the first one started this process
        tasks.forEachActive([&](const Member& task) {
            tellFailure(task, isFirst);
            isFirst = false;
        });
        endContainer();
    }

    void tellFailure(const Member& task, bool withReason) const {
        sendMessage(task.socket.get(),
                    cat("failed ", failure->first, ' ', withReason ? failure->second : ""));
    }

    void greet(Member& task, const std::string& text) {
        const auto words = split(text, ' ');
        if (words.size() != 3 || words[0] != "hello" || !takesTasksOf(words[2]) ||
            !tasks.admit(task, words[1])) {
            sendMessage(task.socket.get(), "other");
            Members::refuse(task);
            return;
        }
        sendMessage(task.socket.get(), "accept");
        if (phase == Phase::running) {
            letIn(task);
        } else if (failure) {
            tellFailure(task, tasks.arrived() == 1);
        }
    }

    bool takesTasksOf(const std::string& fingerprint) const {
        const bool takesTasks = phase == Phase::starting || phase == Phase::running || failure.has_value();
        return takesTasks && fingerprint == plan.fingerprint;
    }

    void decide() {
        const auto now = Clock::now();
        const bool noTask = tasks.active() == 0 && (tasks.arrived() > 0 || now >= arrivalDeadline);
        const bool complete = tasks.areComplete();
        const bool orderly = tasks.lastWasDone();
        switch (phase) {
            case Phase::starting:
                if (noTask && (complete || !orderly)) {
                    endContainer();
                } else if (now >= deadline) {
                    fail(1, "Timeout waiting for shared-run start");
                }
                break;
            case Phase::running:
                // No task waits for those that are missing after others were killed.
                if (noTask && (complete || !orderly || now >= arrivalDeadline)) {
                    tellMissing();
                    endContainer();
                }
                break;
            case Phase::ending:
                if (conmon < 0 && podman < 0) {
                    containerGone();
                } else if (now >= deadline) {
                    removeByForce();
                }
                break;
            case Phase::killing:
            case Phase::removing:
                if ((removed && conmon < 0) || now >= deadline) {
                    containerGone();
                }
                break;
            case Phase::failed:
                if (complete || now >= arrivalDeadline) {
                    phase = Phase::gone;
                }
                break;
            case Phase::gone:
                break;
        }
    }

    void tellMissing() const {
        if (!tasks.areComplete()) {
            for (const auto& task : tasks.open()) {
                sendMessage(task.socket.get(), cat("missing ", plan.tasks - tasks.arrived()));
            }
        }
    }

    /// Ends `podman run`, and the monitor of a container that it has not started yet: that would wait for the
    /// start for ever, and Podman does not know of it.
    void stopStart() {
        if (podman > 0) {
            ::kill(podman, SIGKILL);
            siginfo_t info{};
            ::waitid(P_PID, static_cast<id_t>(podman), &info, WEXITED | WNOWAIT);  // its children become ours
            podman = -1;
        }
        // Other children are processes that all of the user's containers share.
        killDescendants(Process(::getpid()), 100, [self = ::getpid()](const Process& process) {
            const auto name = process.read("comm");
            return process.parent() == self && name != "podman\n" && name != "conmon\n";
        });
    }

    void endContainer() {
        const bool isStarting = phase == Phase::starting;
        entry.reset();
        lifeline.writer.reset();
        deadline = Clock::now() + patience;
        phase = Phase::ending;
        if (isStarting) {
            stopStart();
            removeByForce();
        } else if (conmon >= 0 && plan.holdsLifeline) {
            // conmon removes the container
        } else if (conmon >= 0 || !failure) {
            phase = Phase::killing;
            deadline = Clock::now() + 4 * patience;
            runPodman({"kill", containerId()});
        }
    }

    void removeByForce() {
        phase = Phase::removing;
        deadline = Clock::now() + 4 * patience;
        runPodman({"rm", "-f", "-t", "0", "--ignore", containerId()});
    }

    void containerGone() { phase = failure && !tasks.areComplete() ? Phase::failed : Phase::gone; }

    const KeeperPlan plan;
    const MeetingPlace& place;
    std::string seat;  ///< its name
    Pipe lifeline;
    Members tasks;
    UniqueFd children;
    UniqueFd output;
    UniqueFd errors;
    Phase phase = Phase::starting;
    Clock::time_point deadline{};
    Clock::time_point arrivalDeadline{};
    pid_t podman = -1;  ///< the one that runs now
    pid_t conmon = -1;
    std::vector<pid_t> endedBefore{};  ///< before their meaning was known
    bool removed = false;
    std::optional<ContainerEntry> entry{};
    std::optional<std::pair<int, std::string>> failure{};
};

/// Moves the descriptor out of the way of the lifeline.
UniqueFd moveUp(UniqueFd fd) {
    return UniqueFd(checkErrno(::fcntl(fd.get(), F_DUPFD_CLOEXEC, lifelineNumber + 1),
                               "Failed to duplicate a descriptor"));
}

int keep(const KeeperPlan& plan, const std::string& path, MeetingPlace::Seat seat) {
    seat.listener = moveUp(std::move(seat.listener));
    closeRange(lifelineNumber, seat.listener.get() - 1);
    closeRange(seat.listener.get() + 1);
    auto lifeline = makePipe();  // first: it gets the lowest number
    lifeline.writer = moveUp(std::move(lifeline.writer));
    if (lifeline.reader.get() != lifelineNumber) {
        checkErrno(::dup2(lifeline.reader.get(), lifelineNumber), "Failed to duplicate a descriptor");
        lifeline.reader.reset(lifelineNumber);
    }
    const MeetingPlace place(path, ::geteuid());
    Keeper(plan, place, std::move(seat), std::move(lifeline)).run();
    return 0;
}

}  // namespace

void startKeeper(const KeeperPlan& plan, const MeetingPlace& place, MeetingPlace::Seat seat) {
    startInBackground("shared-run-keep", [&] { return keep(plan, place.path(), std::move(seat)); });
}

}  // namespace sarus::podman_hpc
