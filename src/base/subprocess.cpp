#include "base/subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus {

Child::Child(Child&& other) noexcept : id(std::exchange(other.id, -1)) {}

Child& Child::operator=(Child&& other) noexcept {
    if (this != &other) {
        end();
        id = std::exchange(other.id, -1);
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
        ::kill(id, SIGKILL);
        while (::waitpid(id, nullptr, 0) < 0 && errno == EINTR) {
        }
        id = -1;
    }
}

ExitStatus Child::wait() {
    int status = 0;
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

namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> result;
    result.reserve(strings.size() + 1);
    for (const auto& string : strings) {
        result.push_back(const_cast<char*>(string.c_str()));  // execve does not write to them
    }
    result.push_back(nullptr);
    return result;
}

/// After fork: only async-signal-safe calls. Reports errno through `failure` and does not return.
class ChildSide {
public:
    ChildSide(const Command& theCommand, pid_t parentPid, int failurePipe)
        : command(theCommand),
          argv(pointers(theCommand.args)),
          environment(theCommand.environment ? pointers(*theCommand.environment) : std::vector<char*>{}),
          kept(theCommand.keepFds),
          parent(parentPid),
          failure(failurePipe) {
        kept.push_back(failurePipe);
        std::sort(kept.begin(), kept.end());
    }

    [[noreturn]] void run() const {
        if (command.dieWithParent) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (::getppid() != parent) {
                ::_exit(127);
            }
        }
        resetSignals();
        if (!connectStandardStreams() || !closeOthers()) {
            fail();
        }
        ::execve(command.path.c_str(), argv.data(), command.environment ? environment.data() : environ);
        fail();
    }

private:
    static void resetSignals() {
        for (int signal = 1; signal < NSIG; ++signal) {
            ::signal(signal, SIG_DFL);  // fails for SIGKILL and SIGSTOP, which is fine
        }
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
    }

    bool connectStandardStreams() const {
        // The sources are moved above 2 first: one of them may be in the way of another.
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
        closeRange(next, -1);
        return true;
    }

    static void closeRange(int first, int last) {
        if (last >= 0 && last < first) {
            return;
        }
        const auto end = last < 0 ? ~0U : static_cast<unsigned>(last);
        if (::syscall(SYS_close_range, static_cast<unsigned>(first), end, 0U) == 0) {
            return;
        }
        const long limit = last < 0 ? ::sysconf(_SC_OPEN_MAX) : last + 1;  // before Linux 5.9
        for (int fd = first; fd < limit; ++fd) {
            ::close(fd);
        }
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

struct Pipe {
    UniqueFd readEnd;
    UniqueFd writeEnd;
};

Pipe makePipe() {
    std::array<int, 2> ends{};
    checkErrno(::pipe2(ends.data(), O_CLOEXEC), "Failed to create a pipe");
    Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
    if (pipe.writeEnd.get() <= 2) {  // with closed standard streams the number would collide with them
        pipe.writeEnd.reset(checkErrno(::fcntl(pipe.writeEnd.get(), F_DUPFD_CLOEXEC, 3), "Failed to duplicate a pipe"));
    }
    return pipe;
}

void appendWithin(std::string& out, const char* data, std::size_t size, std::size_t limit) {
    out.append(data, std::min(size, limit - std::min(limit, out.size())));
}

}  // namespace

Child start(const Command& command) {
    auto [failure, failureWriter] = makePipe();
    const ChildSide childSide(command, ::getpid(), failureWriter.get());
    const pid_t pid = checkErrno(::fork(), "Failed to create a process");
    if (pid == 0) {
        childSide.run();
    }
    Child child(pid);
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
    command.stdoutFd = out.writeEnd.get();
    command.stderrFd = err.writeEnd.get();
    auto child = start(command);
    out.writeEnd.reset();
    err.writeEnd.reset();
    Output output;
    std::array<pollfd, 2> polled{pollfd{out.readEnd.get(), POLLIN, 0}, pollfd{err.readEnd.get(), POLLIN, 0}};
    std::array<std::string*, 2> sinks{&output.out, &output.err};
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
            throwErrno("Failed to wait for output");
        }
        for (std::size_t i = 0; i < polled.size(); ++i) {
            if (polled[i].revents == 0) {
                continue;
            }
            char buffer[16384];
            const auto count = ::read(polled[i].fd, buffer, sizeof buffer);
            if (count > 0) {
                appendWithin(*sinks[i], buffer, static_cast<std::size_t>(count), limit);
            } else if (count == 0 || errno != EINTR) {
                polled[i].fd = -1;
            }
            polled[i].revents = 0;
        }
    }
    output.status = child.wait();
    return output;
}

std::optional<std::string> findProgram(const std::string& name) {
    if (name.find('/') != std::string::npos) {
        return ::access(name.c_str(), X_OK) == 0 ? std::optional(name) : std::nullopt;
    }
    const char* path = ::getenv("PATH");
    for (const auto& directory : split(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", ':')) {
        const std::string candidate = cat(directory.empty() ? "." : directory, '/', name);
        if (::access(candidate.c_str(), X_OK) == 0) {
            return candidate;
        }
    }
    return std::nullopt;
}

}  // namespace sarus
