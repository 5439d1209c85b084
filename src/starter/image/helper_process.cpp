#include "starter/image/helper_process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

bool isOver(const Child& process) noexcept {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(process.pid()), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

/// The child after fork. Returns only on failure, with errno.
class ChildSide {
public:
    ChildSide(const HelperProcess::Setup& theSetup, const Credentials& theCredentials, int theChannel,
              int theOutput, pid_t theParent)
        : setup(theSetup),
          credentials(theCredentials),
          argv(argumentPointers(theSetup.args)),
          channel(theChannel),
          output(theOutput),
          parent(theParent) {}

    void run() {
        if (setup.ownMountNamespace && ::unshare(CLONE_NEWNS) != 0) {
            return;
        }
        if (!setup.hidden.empty() && ::umount2(setup.hidden.c_str(), MNT_DETACH) != 0) {
            return;
        }
        if (setup.dropPrivileges && credentials.privileged()) {
            // The starter keeps the caller's supplementary groups, so they are already right.
            const auto user = credentials.uid();
            const auto group = credentials.gid();
            if (::setresgid(group, group, group) != 0 || ::setresuid(user, user, user) != 0) {
                return;
            }
        }
        // After the last change of ids, which would clear it.
        if ((!setup.isShared && (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)) ||
            ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
            return;
        }
        ::setsid();
        if (setup.isShared) {
            useAllProcessors();
        }
        if (!signalReady() || !arrangeDescriptors()) {
            return;
        }
        blockSignals();
        std::array<char*, 2> environment{path.data(), nullptr};
        ::execve(setup.program.c_str(), argv.data(), environment.data());
    }

private:
    bool signalReady() const {
        char byte = 0;
        if (::write(channel, &byte, 1) != 1) {
            return false;
        }
        ssize_t count = 0;
        while ((count = ::read(channel, &byte, 1)) < 0 && errno == EINTR) {
        }
        return count == 1;  // 0: the parent gave up
    }

    /// The kernel reduces them to those of the cgroup. A failure costs only time.
    static void useAllProcessors() {
        std::array<unsigned long, 128> all{};
        all.fill(~0UL);
        ::syscall(SYS_sched_setaffinity, 0, sizeof all, all.data());
    }

    bool arrangeDescriptors() const {
        // First move all descriptors out of the way, then into place.
        constexpr int outOfTheWay = 64;
        std::vector<int> sources{::open("/dev/null", O_RDONLY | O_CLOEXEC), output, output};
        sources.insert(sources.end(), setup.descriptors.begin(), setup.descriptors.end());
        for (int& source : sources) {
            source = ::fcntl(source, F_DUPFD_CLOEXEC, outOfTheWay);
        }
        int target = 0;
        for (const int source : sources) {
            if (source < 0 || ::dup2(source, target) < 0) {
                return false;
            }
            ++target;
        }
        closeFrom(target);
        return true;
    }

    static void closeFrom(int first) {
        if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) {
            return;
        }
        const long limit = ::sysconf(_SC_OPEN_MAX);  // before Linux 5.9
        for (int fd = first; fd < limit; ++fd) {
            ::close(fd);
        }
    }

    /// A workload manager signals every process of a job. The container's filesystem must outlive the
    /// program's reaction to the signals; it ends by SIGKILL.
    static void blockSignals() {
        sigset_t blocked;
        ::sigfillset(&blocked);
        for (const int number : {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGABRT, SIGCHLD}) {
            ::sigdelset(&blocked, number);
        }
        for (int number = 1; number < NSIG; ++number) {
            ::signal(number, SIG_DFL);  // fails harmlessly for SIGKILL and SIGSTOP
        }
        ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
    }

    const HelperProcess::Setup& setup;
    const Credentials& credentials;
    std::vector<char*> argv;
    std::array<char, 24> path{"PATH=/usr/bin:/bin"};
    int channel;
    int output;
    pid_t parent;
};

}  // namespace

HelperProcess::HelperProcess(const Setup& setup, const Credentials& credentials)
    : output(
          checkErrno(::memfd_create("sarus-helper-output", MFD_CLOEXEC), "Failed to create a memory file")) {
    std::array<int, 2> ends{};
    checkErrno(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
               "Failed to create a socket pair");
    channel.reset(ends[0]);
    UniqueFd childEnd(ends[1]);
    ChildSide childSide(setup, credentials, childEnd.get(), output.get(), ::getpid());
    const pid_t pid = checkErrno(::fork(), "Failed to create a process");
    if (pid == 0) {
        channel.reset();
        childSide.run();
        ::dprintf(output.get(), "cannot be executed (errno %d)", errno);
        ::_exit(127);
    }
    child = Child(pid);
    childEnd.reset();
    char byte = 0;
    ssize_t count = 0;
    while ((count = ::read(channel.get(), &byte, 1)) < 0 && errno == EINTR) {
    }
    if (count != 1) {
        throw Error(cat("Failed to start ", setup.program, ": it could not take on the user's rights"));
    }
}

void HelperProcess::release() {
    const char byte = 1;
    // If the child died, the missing mount will show it.
    [[maybe_unused]] const auto sent = ::send(channel.get(), &byte, 1, MSG_NOSIGNAL);
    channel.reset();
}

bool HelperProcess::hasEnded() const noexcept {
    return isOver(child);
}

void HelperProcess::setDeadline(std::chrono::seconds patience) {
    const pid_t self = ::getpid();
    deadline = std::chrono::steady_clock::now() + patience;
    const pid_t pid = checkErrno(::fork(), "Failed to create a process");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        const timespec time{.tv_sec = patience.count(), .tv_nsec = 0};
        if (::getppid() == self && ::nanosleep(&time, nullptr) == 0) {  // all signals are blocked
            ::kill(child.pid(),
                   SIGKILL);  // reaped only after this process, so its pid is not reused
        }
        ::_exit(0);
    }
    watchdog = Child(pid);
}

bool HelperProcess::wasTooSlow() const noexcept {
    return watchdog.pid() > 0 && std::chrono::steady_clock::now() >= deadline;
}

std::string HelperProcess::endAndGetOutput() {
    // A server whose mount failed is about to print the reason and to exit, on a busy node after a while.
    constexpr int attempts = 10'000;
    for (int attempt = 0; attempt < attempts && !hasEnded(); ++attempt) {
        ::usleep(1000);
    }
    watchdog = Child();  // before its pid can be reused
    child = Child();
    std::array<char, 1024> text{};
    const auto count = ::pread(output.get(), text.data(), text.size(), 0);
    std::string line;
    for (const auto& part :
         split(std::string_view(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0), '\n')) {
        const auto trimmed = trim(part);
        if (!trimmed.empty()) {
            line += cat(line.empty() ? "" : "; ", trimmed);
        }
    }
    return printable(line);
}

}  // namespace sarus::starter
