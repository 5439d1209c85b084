#include "base/begin_process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sarus {

namespace {

constexpr std::array fromUsers{SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGTSTP};

sigset_t ignoredByCaller{};  // empty

void openMissingStandardStreams() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        // fstat(2) asks the file system, which may refuse: root on a user's FUSE mount.
        if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) {
            continue;
        }
        const int opposite = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (::open("/dev/null", opposite | O_NOCTTY) != fd) {
            ::dprintf(STDERR_FILENO, "Failed to open /dev/null: %s\n", std::strerror(errno));
            ::_exit(1);
        }
    }
}

void noteIgnoredSignals() {
    ::sigemptyset(&ignoredByCaller);
    for (const int signal : fromUsers) {
        struct sigaction action {};
        if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
            ::sigaddset(&ignoredByCaller, signal);
        }
    }
}

}  // namespace

sigset_t beginProcess(BlockedSignals blocked) noexcept {
    openMissingStandardStreams();
    ::signal(SIGCHLD, SIG_DFL);
    noteIgnoredSignals();
    if (blocked == BlockedSignals::unblock) {
        return unblockSignals();
    }
    sigset_t before;
    ::sigprocmask(SIG_SETMASK, nullptr, &before);
    return before;
}

bool isIgnoredByCaller(int signal) noexcept {
    return ::sigismember(&ignoredByCaller, signal) == 1;
}

std::vector<int> signalsIgnoredByCaller() {
    std::vector<int> signals;
    for (const int signal : fromUsers) {
        if (isIgnoredByCaller(signal)) {
            signals.push_back(signal);
        }
    }
    return signals;
}

void resetSignalActions(IgnoredSignals ignored) noexcept {
    for (int signal = 1; signal < NSIG; ++signal) {
        if (ignored == IgnoredSignals::reset || !isIgnoredByCaller(signal)) {
            ::signal(signal, SIG_DFL);  // fails harmlessly for SIGKILL, SIGSTOP and the C library's signals
        }
    }
}

sigset_t unblockSignals() noexcept {
    sigset_t none;
    sigset_t before;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, &before);
    return before;
}

}  // namespace sarus
