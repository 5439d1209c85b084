#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>

namespace sarus::test {

/// Runs `body` in a process of its own, whose identity it may change, and returns what it returns (0 to 97).
/// 98: it threw.
template <typename Body>
int isolated(Body body) {
    const pid_t pid = ::fork();
    if (pid == 0) {
        int result = 98;
        try {
            result = body();
        } catch (const std::exception&) {
            // 98 says so
        }
        ::_exit(result);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// As the starter does.
inline void blockAllSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace sarus::test
