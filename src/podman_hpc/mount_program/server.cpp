#include "podman_hpc/mount_program/server.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr std::size_t outputLimit = 4096;

/// Where the output of the servers goes: the file $LOG, or a file in memory that cannot grow.
UniqueFd openOutput() {
    const char* log = std::getenv("LOG");
    if (log != nullptr && *log != '\0') {
        constexpr int flags = O_RDWR | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
        UniqueFd file(::open(log, flags, 0600));
        struct stat status {};
        if (file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) {
            return file;
        }
    }
    UniqueFd memory(::memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory || ::ftruncate(memory.get(), outputLimit) != 0 ||
        ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0) {
        throwErrno("Failed to make a file in memory");
    }
    return memory;
}

/// A workload manager signals every process of a job. The files of a container must outlive the reaction to
/// such signals.
void blockSignals() {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int number : {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGABRT, SIGCHLD}) {
        ::sigdelset(&blocked, number);
        ::signal(number, SIG_DFL);
    }
    ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

bool arrangeDescriptors(const std::vector<int>& wanted, int output) {
    constexpr int outOfTheWay = 64;
    std::vector<int> sources{::open("/dev/null", O_RDONLY | O_CLOEXEC), output, output};
    sources.insert(sources.end(), wanted.begin(), wanted.end());
    for (int& source : sources) {
        source = ::fcntl(source, F_DUPFD_CLOEXEC, outOfTheWay);
    }
    for (std::size_t target = 0; target < sources.size(); ++target) {
        if (sources[target] < 0 || ::dup2(sources[target], static_cast<int>(target)) < 0) {
            return false;
        }
    }
    return true;  // all others are close-on-exec
}

/// The child. Returns only on failure, with errno.
void serve(const Server::Setup& setup, int channel, int output) {
    ::setsid();
    if (::chdir("/") != 0) {
        return;
    }
    if (setup.ownMountNamespace) {
        if (::unshare(CLONE_NEWNS) != 0) {
            return;
        }
        hideMounts(setup.hidden);
    }
    if (setup.user != 0 &&
        (::setgroups(0, nullptr) != 0 || ::setresgid(setup.group, setup.group, setup.group) != 0 ||
         ::setresuid(setup.user, setup.user, setup.user) != 0)) {
        return;
    }
    char byte = 0;
    ssize_t count = 0;
    while ((count = ::read(channel, &byte, 1)) < 0 && errno == EINTR) {
    }
    if (count != 1) {
        ::_exit(0);  // the parent gave up
    }
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !arrangeDescriptors(setup.descriptors, output)) {
        return;
    }
    blockSignals();
    const auto argv = argumentPointers(setup.args);
    std::string path = "PATH=/usr/local/bin:/usr/bin:/bin";
    std::array<char*, 2> environment{path.data(), nullptr};
    ::execve(setup.program.c_str(), argv.data(), environment.data());
}

/// Kills a process at the deadline: only that wakes one that waits in the kernel for a silent server. A
/// thread: a process would hold copies of the descriptors, and so the mounts.
class Watchdog {
public:
    Watchdog(pid_t victim, std::chrono::seconds patience)
        : thread([this, victim, deadline = std::chrono::steady_clock::now() + patience] {
              ::unshare(CLONE_FS);  // setns(2) refuses a process whose threads share their directories
              std::unique_lock lock(mutex);
              if (!ended.wait_until(lock, deadline, [this] { return isOver; })) {
                  fired = true;  // before the kill, which wakes the other thread
                  ::kill(victim, SIGKILL);
              }
          }) {}
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
    ~Watchdog() { hasFired(); }

    /// Ends it.
    bool hasFired() {
        if (thread.joinable()) {
            {
                const std::lock_guard lock(mutex);
                isOver = true;
            }
            ended.notify_one();
            thread.join();
        }
        return fired;
    }

private:
    std::mutex mutex;
    std::condition_variable ended;
    bool isOver = false;
    bool fired = false;
    std::thread thread;  // last: it uses the others
};

std::string oneLine(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return printable(trim(text));
}

}  // namespace

int patienceInSeconds() {
    constexpr int usual = 30;
    const char* text = std::getenv("PODMANHPC_MOUNT_TIMEOUT");
    const auto seconds = parseNumber(text == nullptr ? "" : text);
    return seconds && *seconds > 0 && *seconds < 86400 ? static_cast<int>(*seconds) : usual;
}

Server::Server(const Setup& setup) : program(setup.program), output(openOutput()) {
    std::array<int, 2> ends{};
    checkErrno(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), "Failed to make a socket");
    channel.reset(ends[0]);
    const UniqueFd theirs(ends[1]);
    process = checkErrno(::fork(), "Failed to start a process");
    if (process == 0) {
        channel.reset();
        serve(setup, theirs.get(), output.get());
        const auto why = cat("cannot be started: ", Error::fromErrno(setup.program, errno).what(), "\n");
        ::_exit(::write(output.get(), why.data(), why.size()) < 0 ? 127 : 126);
    }
}

Server::~Server() {
    if (process > 0) {
        ::kill(process, SIGKILL);
        while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
}

UniqueFd Server::waitForRoot(int mountPoint) {
    const char byte = 1;
    if (::send(channel.get(), &byte, 1, MSG_NOSIGNAL) != 1) {
        return UniqueFd();
    }
    Watchdog watchdog(process, std::chrono::seconds(patienceInSeconds()));
    UniqueFd root(::openat(mountPoint, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    wasTooSlow = watchdog.hasFired();
    return wasTooSlow ? UniqueFd() : std::move(root);
}

std::string Server::endAndGetOutput() {
    ::kill(process, SIGKILL);
    while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
    process = -1;
    if (wasTooSlow) {
        return cat(program, " did not answer within ", patienceInSeconds(), " s");
    }
    std::string text(outputLimit, '\0');
    const off_t size = ::lseek(output.get(), 0, SEEK_END);
    const auto count = ::pread(output.get(), text.data(), text.size(),
                               std::max<off_t>(0, size - static_cast<off_t>(outputLimit)));
    text.resize(count > 0 ? std::min(text.find('\0'), static_cast<std::size_t>(count)) : 0);
    return cat(program, ": ", text.empty() ? "it ended without a message" : oneLine(text));
}

void hideMounts(const std::vector<std::string>& directories) {
    for (const auto& mount : readMountTable()) {
        const auto isIn = [&](const std::string& directory) {
            return mount.mountPoint == directory || mount.mountPoint.starts_with(directory + "/");
        };
        if (std::any_of(directories.begin(), directories.end(), isIn)) {
            // Takes those below along, which then fail. One that stays keeps a container's files longer.
            ::umount2(mount.mountPoint.c_str(), MNT_DETACH);
        }
    }
}

}  // namespace sarus::podman_hpc
