#include "image/transfer/run_tool.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/pipe.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace sarus::image {

namespace {

void checkProgram(const std::string& path, std::string_view package) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
        throw Error(cat("The program \"", printable(path), "\" does not exist"),
                    cat("It comes with the Debian package ", package, "; its path is set in sarus.json"))
            .setId("program-missing");
    }
}

constexpr std::size_t outputLimit = 8U << 20U;

/// Ends a program that a signal has not ended in time. Its own processes, such as credential helpers, may
/// ignore signals, and keep its output open.
class Impatience {
public:
    void look() {
        constexpr std::chrono::seconds grace{1};
        if (!isInterrupted()) {
            return;
        }
        const auto now = Clock::now();
        if (now - since.value_or(now) >= grace) {
            throwIfInterrupted();  // the program is killed, with its process group
        }
        since = since.value_or(now);
    }

private:
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> since;
};

/// While it lives, "/" is the working directory. skopeo starts a credential helper whose name has slashes
/// from below its working directory, and when root runs it both the name and the directory may be a user's.
class InRootDirectory {
public:
    InRootDirectory() : before(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
        checkErrno(::chdir("/"), "Failed to change to the root directory");
    }
    InRootDirectory(const InRootDirectory&) = delete;
    InRootDirectory& operator=(const InRootDirectory&) = delete;
    ~InRootDirectory() { [[maybe_unused]] const auto back = ::fchdir(before.get()); }

private:
    UniqueFd before;
};

}  // namespace

GroupGuard::GroupGuard(pid_t group) noexcept {
    const pid_t parent = ::getpid();
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    id = ::fork();
    if (id != 0) {
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        return;  // without a guard, if there can be no process
    }
    // Only async-signal-safe calls.
    ::setpgid(0, 0);  // a signal for the parent's group must not end it
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    closeRange(0);
    sigset_t death;
    ::sigemptyset(&death);
    ::sigaddset(&death, SIGTERM);
    while (::getppid() == parent) {
        ::sigwaitinfo(&death, nullptr);
    }
    ::kill(-group, SIGKILL);
    ::_exit(0);
}

GroupGuard::~GroupGuard() {
    if (id > 0) {
        ::kill(id, SIGKILL);
        while (::waitpid(id, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
}

Tool startTool(Command command, std::string_view package) {
    checkProgram(command.path, package);
    logDebug("ImageManager", cat("Executing ", printable(join(command.args, " "))));
    throwIfInterrupted();
    command.ownGroup = true;  // includes skopeo's credential helpers, and skopeo itself behind a script
    const InRootDirectory here;
    Tool tool{.guard = {}, .process = start(command)};
    tool.guard = GroupGuard(tool.process.pid());
    return tool;
}

ToolResult runTool(const Command& command, ToolStreams streams, std::string_view package,
                   const std::optional<ToolWatch>& watch) {
    auto connected = command;
    Pipe out;
    if (streams == ToolStreams::captureBoth) {
        out = makePipe();
        connected.stdoutFd = out.writer.get();
    }
    auto err = makePipe();
    connected.stderrFd = err.writer.get();
    ToolResult result;
    auto tool = startTool(std::move(connected), package);
    auto& child = tool.process;
    {
        const SignalForwarding forwarding(child);
        out.writer.reset();
        err.writer.reset();
        const auto keepError = appendTo(result.err, outputLimit);
        const auto takeError = [&](std::string_view piece) {
            if (logLevel() == LogLevel::debug) {
                [[maybe_unused]] const auto shown = ::write(STDERR_FILENO, piece.data(), piece.size());
            }
            keepError(piece);
            if (watch && watch->hear) {
                watch->hear(piece);
            }
        };
        constexpr std::chrono::milliseconds interval{200};
        Impatience impatience;
        const auto look = [&] {
            impatience.look();
            if (watch) {
                watch->look(child.pid());
            }
        };
        readToEnd({{out.reader.get(), appendTo(result.out, outputLimit)}, {err.reader.get(), takeError}}, {},
                  Tick{watch ? watch->interval : interval, look});
        result.status = child.wait();
    }
    throwIfInterrupted();
    return result;
}

}  // namespace sarus::image
