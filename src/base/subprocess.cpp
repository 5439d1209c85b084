#include "base/subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/begin_process.hpp"
#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/host_variable.hpp"
#include "base/pipe.hpp"
#include "base/text.hpp"
#include "base/time_left.hpp"

namespace sarus {

Child::Child(Child&& other) noexcept : id(std::exchange(other.id, -1)), isLeader(other.isLeader) {}

Child& Child::operator=(Child&& other) noexcept {
    if (this != &other) {
        end();
        id = std::exchange(other.id, -1);
        isLeader = other.isLeader;
    }
    return *this;
}

Child::~Child() {
    end();
}

pid_t Child::release() noexcept {
    return std::exchange(id, -1);
}

void Child::end() noexcept {
    if (id > 0) {
        ::kill(isLeader ? -id : id, SIGKILL);
        while (::waitpid(id, nullptr, 0) < 0 && errno == EINTR) {
        }
        id = -1;
    }
}

ExitStatus Child::wait() {
    int status = 0;
    if (isLeader) {
        // Kill the group while the dead leader still reserves its number.
        siginfo_t info{};
        while (::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
        }
        ::kill(-id, SIGKILL);
    }
    while (::waitpid(id, &status, 0) < 0) {
        if (errno != EINTR) {
            throwErrno("Failed to wait for a child process");
        }
    }
    id = -1;
    if (WIFSIGNALED(status)) {
        return {.code = 0, .signal = WTERMSIG(status)};
    }
    return {.code = WEXITSTATUS(status), .signal = 0};
}

std::optional<ExitStatus> Child::waitUntil(std::chrono::steady_clock::time_point deadline) {
    constexpr int pollMilliseconds = 5;
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, id, 0)));  // none before Linux 5.3
    for (;;) {
        siginfo_t info{};
        if (::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
            info.si_pid == id) {
            return wait();
        }
        const int left = millisecondsUntil(deadline);
        if (left == 0) {
            return std::nullopt;
        }
        pollfd source{process.get(), POLLIN, 0};  // poll(2) skips -1
        ::poll(&source, 1, process ? left : std::min(left, pollMilliseconds));
    }
}

std::vector<char*> argumentPointers(const std::vector<std::string>& strings) {
    std::vector<char*> result;
    result.reserve(strings.size() + 1);
    for (const auto& string : strings) {
        result.push_back(const_cast<char*>(string.c_str()));  // execve does not modify them
    }
    result.push_back(nullptr);
    return result;
}

namespace {

/// After fork: only async-signal-safe calls. Reports errno through `failure` and does not return.
class ChildSide {
public:
    ChildSide(const Command& theCommand, pid_t parentPid, int failurePipe)
        : command(theCommand),
          argv(argumentPointers(theCommand.args)),
          environment(theCommand.environment ? argumentPointers(*theCommand.environment)
                                             : std::vector<char*>{}),
          kept(theCommand.keepFds),
          parent(parentPid),
          failure(failurePipe) {
        kept.push_back(failurePipe);
        std::sort(kept.begin(), kept.end());
    }

    /// The process works in the memory of this thread, which waits: nothing is copied. Returns its pid or -1.
    pid_t start() const {
        constexpr std::size_t stackSize = 256U << 10U;
        const std::unique_ptr<std::byte[]> stack(new std::byte[stackSize]);
        const auto main = [](void* self) -> int { static_cast<const ChildSide*>(self)->run(); };
        // No handler of this process may run in the other one.
        sigset_t all;
        sigset_t before;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before);
#ifdef SARUS_SANITIZED  // a sanitizer would take what the child does for this thread's work
        constexpr int sharing = CLONE_VFORK;
#else
        constexpr int sharing = CLONE_VM | CLONE_VFORK;
#endif
        const pid_t pid =
            ::clone(main, stack.get() + stackSize, sharing | SIGCHLD, const_cast<ChildSide*>(this));
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);  // reports an error without errno
        return pid;
    }

private:
    [[noreturn]] void run() const {
        if (command.dieWithParent) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (::getppid() != parent) {
                ::_exit(127);
            }
        }
        if (command.ownGroup) {
            ::setpgid(0, 0);
        }
        resetSignalActions(command.ignoredSignals);
        unblockSignals();
        if (!connectStandardStreams() || !closeOthers()) {
            fail();
        }
        ::execve(command.path.c_str(), argv.data(), command.environment ? environment.data() : environ);
        fail();
    }

    bool connectStandardStreams() const {
        // Move the sources above 2 first: one may occupy the target of another.
        std::array<int, 3> sources{command.stdinFd, command.stdoutFd, command.stderrFd};
        if (sources[0] < 0) {
            sources[0] = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        }
        for (int& source : sources) {
            if (source >= 0 && source <= 2) {
                source = ::fcntl(source, F_DUPFD_CLOEXEC, 3);
            }
        }
        for (int target = 0; target < 3; ++target) {
            const int source = sources[static_cast<std::size_t>(target)];
            if (source >= 0 && ::dup2(source, target) < 0) {
                return false;
            }
        }
        return true;
    }

    bool closeOthers() const {
        int next = 3;
        for (const int keep : kept) {
            if (keep < next) {
                continue;
            }
            closeRange(next, keep - 1);
            if (keep != failure && ::fcntl(keep, F_SETFD, 0) != 0) {
                return false;
            }
            next = keep + 1;
        }
        closeRange(next);
        return true;
    }

    [[noreturn]] void fail() const {
        const int error = errno;
        [[maybe_unused]] const auto written = ::write(failure, &error, sizeof error);
        ::_exit(127);
    }

    const Command& command;
    std::vector<char*> argv;
    std::vector<char*> environment;
    std::vector<int> kept;
    pid_t parent;
    int failure;
};

}  // namespace

Child start(const Command& command) {
    auto [failure, failureWriter] = makePipe();
    const ChildSide childSide(command, ::getpid(), failureWriter.get());
    const pid_t pid = checkErrno(childSide.start(), "Failed to create a process");
    if (command.ownGroup) {
        ::setpgid(pid, pid);  // in both processes: the first one counts
    }
    Child child(pid, command.ownGroup);
    failureWriter.reset();
    int error = 0;
    ssize_t count = 0;
    while ((count = ::read(failure.get(), &error, sizeof error)) < 0 && errno == EINTR) {
    }
    if (count == sizeof error) {
        child.wait();
        throw Error::fromErrno(cat("Failed to execute ", printable(command.path)), error);
    }
    return child;
}

Output runAndCapture(Command command, std::size_t limit) {
    auto out = makePipe();
    auto err = makePipe();
    command.stdoutFd = out.writer.get();
    command.stderrFd = err.writer.get();
    auto child = start(command);
    out.writer.reset();
    err.writer.reset();
    Output output;
    readToEnd(
        {{out.reader.get(), appendTo(output.out, limit)}, {err.reader.get(), appendTo(output.err, limit)}});
    output.status = child.wait();
    return output;
}

void replaceProcess(const std::string& path, const std::vector<std::string>& args) {
    ::execv(path.c_str(), argumentPointers(args).data());
    throwErrno(cat("Failed to execute ", printable(path)));
}

std::optional<std::string> findProgram(const std::string& name) {
    if (name.find('/') != std::string::npos) {
        return ::access(name.c_str(), X_OK) == 0 ? std::optional(name) : std::nullopt;
    }
    return findProgram(name, hostVariable("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
}

std::optional<std::string> findProgram(const std::string& name, std::string_view directories) {
    for (const auto& directory : split(directories, ':')) {
        const std::string candidate = cat(directory.empty() ? "." : directory, '/', name);
        if (::access(candidate.c_str(), X_OK) == 0) {
            return candidate;
        }
    }
    return std::nullopt;
}

}  // namespace sarus
