#include "starter/entry/termination.hpp"

#include <signal.h>

#include <cstring>
#include <ctime>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

sigset_t terminations() {
    sigset_t all;
    ::sigemptyset(&all);
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2}) {
        ::sigaddset(&all, number);
    }
    return all;
}

}  // namespace

bool isTermination(int number) {
    const auto all = terminations();
    return ::sigismember(&all, number) == 1;
}

bool isTerminationPending() {
    sigset_t pending;
    ::sigpending(&pending);
    for (int number = 1; number < SIGRTMIN; ++number) {
        if (::sigismember(&pending, number) == 1 && isTermination(number)) {
            return true;
        }
    }
    return false;
}

int takePendingTermination() {
    const auto all = terminations();
    const timespec now{};
    const int number = ::sigtimedwait(&all, nullptr, &now);
    return number > 0 ? number : 0;
}

void throwIfTerminated() {
    if (const int number = takePendingTermination(); number != 0) {
        throw Error(cat("Interrupted by signal ", number, " (", ::strsignal(number), ")"))
            .setExitStatus(128 + number);
    }
}

}  // namespace sarus::starter
