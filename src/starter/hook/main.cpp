// sarus-hook run|fork INDEX ROOT LOG PROGRAM [ARGUMENT...]
// sarus-hook mark|wait INDEX TIMEOUT LOG [PROGRAM [ARGUMENT...]]
// sarus-hook in-turn|early 0 ROOT LOG [INDEX WORDS PROGRAM [ARGUMENT...]]...
// sarus-hook inside INDEX TIMEOUT DESCRIPTION PROGRAM [ARGUMENT...]
// sarus-hook devices INDEX TIMEOUT CGROUP RULES
//
// Runs in front of each hook that an OCI runtime starts. It reads the container's state to the end, because
// the runtimes fail with a broken pipe if a hook ignores it. The first argument selects what it does:
// - run: reports to the starter, through the FIFO LOG, which hook of the plan is about to run, and runs it.
//   Environment, directory and exit status are the hook's own. Fails if the hook has changed the container's
//   /dev below ROOT (hooks/kit/dev_guard.hpp), unless ROOT is 0 or this process is not the node's root.
// - fork: the same for crun's createContainer hooks (see endParent()).
// - in-turn: like fork, for several hooks, each with its variables only ("INDEX:NAME=VALUE"). Stops at the
//   first that fails. Spares the OCI runtime a process for each.
// These three do not start the programs of the hooks that are linked in (linked_hook.hpp).
// - early: like in-turn, for linked hooks in front of the OCI runtime. The starter, which runs them itself,
//   watches the time, so they need no child.
// - mark: runs no hook; reports that all hooks on the host that precede the command have run.
// - wait: for the stages after the start, whose hooks must not end the container if they fail. Runs the hook,
//   kills it after TIMEOUT seconds (0: no limit), and reports a failure or timeout to the starter.
// - inside: runs a hook in the container, where the starter is out of reach, and prints its name if it fails.
// "devices" is a hook itself: it sets the rules of the container's device cgroup (version 1) from the file
// RULES, one rule a line; "?" marks rules that may be refused. The output of hooks goes to LOG.stdout and
// LOG. The protocol of LOG: hook_contracts/hook_wrapper.hpp.
//
// Linked statically, because it may run inside any image. Has no privileges of its own.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/begin_process.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "hook_contracts/callers_settings.hpp"
#include "hook_contracts/hook_wrapper.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/dev_guard.hpp"
#include "starter/hook/linked_hook.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

extern char** environ;

namespace {

namespace hooks = sarus::hooks;
namespace wrapper = sarus::hook_contracts::wrapper;

constexpr long largestState = 64L << 20;
constexpr int cannotExecute = 127;

/// The engine has left out what an image must not set.
std::string trust = std::string(sarus::hook_contracts::trustVariable) + "=true";

[[noreturn]] void fail(const char* doing, const char* what) {
    ::dprintf(STDERR_FILENO, "sarus-hook: %s %s: %s\n", doing, what, ::strerror(errno));
    ::_exit(1);
}

bool writeAll(int fd, const char* data, size_t size) {
    while (size > 0) {
        const ssize_t count = ::write(fd, data, size);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return false;
        }
        data += count;
        size -= static_cast<size_t>(count);
    }
    return true;
}

size_t readInput(char* buffer, size_t size) {
    size_t total = 0;
    while (total < size) {
        const ssize_t count = ::read(STDIN_FILENO, buffer + total, size - total);
        if (count == 0 || (count < 0 && errno == EBADF)) {
            break;
        }
        if (count < 0 && errno != EINTR) {
            fail("Failed to read", "the container's state");
        }
        total += count > 0 ? static_cast<size_t>(count) : 0;
    }
    return total;
}

void becomeInput(int fd) {
    if (::dup2(fd, STDIN_FILENO) < 0) {
        fail("Failed to pass on", "the container's state");
    }
    ::close(fd);
}

/// False if the data exceeds the capacity of a pipe.
bool passThroughPipe(const char* data, size_t size) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const bool fits = ::write(ends[1], data, size) == static_cast<ssize_t>(size);
    ::close(ends[1]);
    if (fits) {
        becomeInput(ends[0]);
    } else {
        ::close(ends[0]);
    }
    return fits;
}

/// The container's state, unless it is so long that a file has it.
char buffer[64U << 10U];
size_t stateSize = 0;
bool isInFile = false;

/// Reads standard input to the end and replaces it with what was read.
void keepState() {
    size_t size = readInput(buffer, sizeof buffer);
    if (size < sizeof buffer && passThroughPipe(buffer, size)) {
        stateSize = size;
        return;
    }
    isInFile = true;
    int file = ::memfd_create("container-state", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (file < 0 && errno == EINVAL) {  // Linux before 6.3
        file = ::memfd_create("container-state", MFD_CLOEXEC);
    }
    long total = 0;
    while (size > 0) {
        total += static_cast<long>(size);
        if (total > largestState) {
            errno = EFBIG;
        }
        if (total > largestState || !writeAll(file, buffer, size)) {
            fail("Failed to keep", "the container's state");
        }
        size = readInput(buffer, sizeof buffer);
    }
    ::lseek(file, 0, SEEK_SET);
    becomeInput(file);
}

std::string stateText() {
    if (!isInFile) {
        return {buffer, stateSize};
    }
    auto text = sarus::readAll(STDIN_FILENO, largestState, "the container's state");
    ::lseek(STDIN_FILENO, 0, SEEK_SET);
    return text;
}

/// Lets the next hook read the state, too.
void repeatState() {
    if (isInFile ? ::lseek(STDIN_FILENO, 0, SEEK_SET) != 0 : !passThroughPipe(buffer, stateSize)) {
        fail("Failed to pass on", "the container's state");
    }
}

/// -1 if nobody reads the log: the starter was killed, and others clean up the container.
int openLog(const char* path) {
    const int log = ::open(path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (log >= 0) {
        ::fcntl(log, F_SETFL, 0);
    }
    return log;
}

/// Sends the hook's output the same way with every runtime: one of them would discard it. Standard output has
/// a log of its own.
void writeTo(int log, const char* path) {
    char name[4096];
    ::snprintf(name, sizeof name, "%s%s", path, wrapper::outputSuffix);
    const int output = openLog(name);
    if (log >= 0 && output >= 0) {
        ::dup2(output, STDOUT_FILENO);
        ::dup2(log, STDERR_FILENO);
    }
}

/// A single write: the output of a hook cannot split the message.
void tell(int log, const char* what, const char* index, int status) {
    char line[128];
    const int size =
        ::snprintf(line, sizeof line, "%s%s %.20s %d\n", wrapper::reportMark, what, index, status);
    if (log >= 0) {
        struct sigaction before {};
        struct sigaction ignored {};
        ignored.sa_handler = SIG_IGN;
        ::sigaction(SIGPIPE, &ignored, &before);
        writeAll(log, line, static_cast<size_t>(size));
        ::sigaction(SIGPIPE, &before, nullptr);
    }
}

/// `command`: PROGRAM and the hook's arguments, the first of which is a name.
char** argumentsOf(char** command) {
    return command[1] == nullptr ? command : command + 1;
}

[[noreturn]] void execute(char** command) {
    ::execve(command[0], argumentsOf(command), environ);
    ::dprintf(STDERR_FILENO, "sarus-hook: Failed to execute %s: %s\n", command[0], ::strerror(errno));
    ::_exit(cannotExecute);
}

/// The wait status of the child, or -1 after a timeout.
int waitFor(pid_t child, long seconds) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const time_t end = now.tv_sec + seconds;
    sigset_t childEnded;
    ::sigemptyset(&childEnded);
    ::sigaddset(&childEnded, SIGCHLD);
    int status = 0;
    while (::waitpid(child, &status, seconds > 0 ? WNOHANG : 0) != child) {
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        if (seconds > 0 && now.tv_sec > end) {
            ::kill(child, SIGKILL);
            ::waitpid(child, &status, 0);
            return -1;
        }
        const timespec patience{.tv_sec = 0, .tv_nsec = 200'000'000};
        if (seconds > 0) {
            ::sigtimedwait(&childEnded, nullptr, &patience);
        }
    }
    return status;
}

/// The words in front of a null pointer.
std::span<char* const> wordsOf(char** words) {
    char** end = words;
    while (*end != nullptr) {
        ++end;
    }
    return {words, end};
}

/// The wait status of the command; -1 if it did not start or exceeded its timeout.
int run(long seconds, char** command) {
    sigset_t childEnded;
    sigset_t before;
    ::sigemptyset(&childEnded);
    ::sigaddset(&childEnded, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &childEnded, &before);
    const pid_t self = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (::getppid() != self) {
            ::_exit(1);
        }
        execute(command);
    }
    const int status = child < 0 ? -1 : waitFor(child, seconds);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return status;
}

/// run() without a time-out, and without starting the program of a hook that is linked in.
int runHook(char** command) {
    const auto linked = sarus::starter::findLinkedHook(command[0]);
    if (!linked) {
        return run(0, command);
    }
    const auto work = [&] { return hooks::runHook(wordsOf(argumentsOf(command)), *linked); };
    return W_EXITCODE(hooks::runInChild(linked->longest, work), 0);
}

int shellStatus(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// When a createContainer hook has failed, crun's process in the container reports it to crun, unblocks all
/// signals, and goes on until crun kills it. If crun is slow, that process prints a confusing message about a
/// missing program. A signal that stays pending until the unblock ends it before that. (Process 1 of a PID
/// namespace cannot be ended this way.)
void endParent(pid_t parent, const sigset_t& blocked) {
    if (parent > 1 && ::sigismember(&blocked, SIGTERM) == 1 && ::getppid() == parent) {
        ::kill(parent, SIGTERM);
    }
}

/// What hooks must not change; empty where there is nothing to lose.
using Guard = std::optional<hooks::DevGuard>;

/// `isInside`: whether this process is in the container's mount namespace, or that is not there yet.
Guard guardDev(const char* root, bool isInside) {
    if (*root != '/' || ::geteuid() != 0 || !hooks::isInitialUserNamespace()) {
        return {};
    }
    return hooks::DevGuard(root, isInside ? std::string() : stateText());
}

/// `status` of the hook PROGRAM, or a failure if it has changed what it must not.
int checked(const Guard& guard, const char* program, int status) {
    try {
        if (guard && status == 0) {
            guard->check();
        }
        return status;
    } catch (const sarus::Error& error) {
        ::dprintf(STDERR_FILENO, "sarus-hook: after %s: %s\n", program, error.what());
        return W_EXITCODE(1, 0);
    }
}

/// One of several hooks that run in turn.
struct Turn {
    const char* index = nullptr;
    std::vector<char*> command;  ///< PROGRAM [ARGUMENT...] and a null pointer
    std::optional<hooks::HookProgram> linked;
};

/// `words`: INDEX WORDS PROGRAM [ARGUMENT...] of each.
std::vector<Turn> parseTurns(std::span<char*> words) {
    std::vector<Turn> turns;
    while (words.size() > 2) {
        const long count = ::strtol(words[1], nullptr, 10);
        if (count < 1 || static_cast<size_t>(count) > words.size() - 2) {
            errno = EINVAL;
            fail("Failed to start the hook", words[0]);
        }
        const auto command = words.subspan(2, static_cast<size_t>(count));
        turns.push_back(
            {words[0], {command.begin(), command.end()}, sarus::starter::findLinkedHook(command[0])});
        turns.back().command.push_back(nullptr);
        words = words.subspan(2 + command.size());
    }
    return turns;
}

/// Those of the hook, without the "INDEX:", and a null pointer.
std::vector<char*> variablesOf(const char* index, char** all) {
    const size_t length = ::strlen(index);
    std::vector<char*> own;
    for (; *all != nullptr; ++all) {
        if (::strncmp(*all, index, length) == 0 && (*all)[length] == ':') {
            own.push_back(*all + length + 1);
        }
    }
    own.insert(own.end(), {trust.data(), nullptr});
    return own;
}

/// The wait status of the first hook that fails; 0 if none does.
int runInTurn(int log, std::vector<Turn> turns, const Guard& guard, bool isWatched) {
    char** const all = environ;
    std::vector<char*> own;
    const auto begin = [&](const Turn& turn) {
        if (&turn != &turns.front()) {
            repeatState();
        }
        own = variablesOf(turn.index, all);
        environ = own.data();
        tell(log, wrapper::begins, turn.index, 0);
    };
    // Neighbours that are linked in share a child: a process costs more than their work.
    const auto runLinked = [&](std::span<Turn> some) {
        std::chrono::seconds longest{0};
        for (const auto& turn : some) {
            longest += turn.linked->longest;
        }
        const auto work = [&] {
            int status = 0;
            for (auto turn = some.begin(); status == 0 && turn != some.end(); ++turn) {
                begin(*turn);
                status = hooks::runHook(wordsOf(argumentsOf(turn->command.data())), *turn->linked);
                status = checked(guard, turn->command[0], status) == 0 ? 0 : std::max(status, 1);
            }
            return status;
        };
        return isWatched ? work() : hooks::runInChild(longest, work);
    };
    int status = 0;
    for (auto turn = turns.begin(); status == 0 && turn != turns.end();) {
        const auto other = std::find_if(turn, turns.end(), [](const Turn& one) { return !one.linked; });
        if (turn != other) {
            status = W_EXITCODE(runLinked({turn, other}), 0);
            turn = other;
        } else {
            begin(*turn);
            status = checked(guard, turn->command[0], run(0, turn->command.data()));
            ++turn;
        }
    }
    return status;
}

int runInside(const char* description, char** command) {
    const int status = run(0, command);
    if (status != 0) {
        ::dprintf(STDERR_FILENO, "The hook which failed is %s\n", description);
    }
    return shellStatus(status);
}

int openControl(const char* cgroup, const char* name) {
    char path[4096];
    ::snprintf(path, sizeof path, "%s/%s", cgroup, name);
    const int control = ::open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (control < 0) {
        fail("Failed to open", path);
    }
    return control;
}

int makeDeviceRules(const char* cgroup, const char* rules) {
    if (!writeAll(openControl(cgroup, "devices.deny"), "a", 1)) {
        fail("Failed to restrict the device cgroup", cgroup);
    }
    const int allow = openControl(cgroup, "devices.allow");
    FILE* file = ::fopen(rules, "re");
    if (file == nullptr) {
        fail("Failed to open", rules);
    }
    char line[128];
    while (::fgets(line, sizeof line, file) != nullptr) {
        line[::strcspn(line, "\n")] = '\0';
        const bool usual = line[0] == '?';
        if (!writeAll(allow, line + usual, ::strlen(line + usual)) && !usual) {
            ::dprintf(STDERR_FILENO, "Failed to allow the device %s in the container's cgroup: %s\n", line,
                      ::strerror(errno));
            return 1;
        }
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    // crun starts hooks with nearly all signals blocked, which breaks `timeout` and `kill -SEGV $$` in them.
    const sigset_t blocked = sarus::beginProcess();
    const auto is = [&](const char* how) { return argc > 5 && ::strcmp(argv[1], how) == 0; };
    const bool mark = argc == 5 && ::strcmp(argv[1], wrapper::mark) == 0;
    if (!mark && !is(wrapper::alone) && !is(wrapper::asChild) && !is(wrapper::wait) && !is(wrapper::inTurn) &&
        !is(wrapper::early) && !is(wrapper::inside) && !is(wrapper::devices)) {
        ::dprintf(STDERR_FILENO,
                  "usage: sarus-hook run|fork|in-turn|early|mark|wait|inside|devices INDEX ROOT|TIMEOUT "
                  "LOG|DESCRIPTION|CGROUP "
                  "[PROGRAM|RULES "
                  "[ARGUMENT...]]\n");
        return 1;
    }
    ::putenv(trust.data());
    const pid_t parent = ::getppid();
    keepState();
    if (is(wrapper::devices)) {
        return makeDeviceRules(argv[4], argv[5]);
    }
    if (is(wrapper::inside)) {
        return runInside(argv[4], argv + 5);
    }
    const int log = openLog(argv[4]);
    writeTo(log, argv[4]);
    if (is(wrapper::wait)) {
        if (const int status = run(::strtol(argv[3], nullptr, 10), argv + 5); status != 0) {
            tell(log, wrapper::failed, argv[2], status);
        }
        return 0;
    }
    const bool early = is(wrapper::early);
    const bool several = early || is(wrapper::inTurn);
    if (!several) {
        tell(log, wrapper::begins, argv[2], 0);
    }
    if (mark) {
        return 0;
    }
    int status = W_EXITCODE(1, 0);
    try {
        const auto guard = guardDev(argv[3], !is(wrapper::alone));
        status = several ? runInTurn(log, parseTurns({argv + 5, argv + argc}), guard, early)
                         : checked(guard, argv[5], runHook(argv + 5));
    } catch (const sarus::Error& error) {
        ::dprintf(STDERR_FILENO, "sarus-hook: %s\n", error.what());
    }
    if (status != 0 && !early && !is(wrapper::alone)) {
        endParent(parent, blocked);
    }
    ::_exit(shellStatus(status));  // spares the destructors of the linked hooks' libraries
}
