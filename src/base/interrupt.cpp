#include "base/interrupt.hpp"

#include <signal.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/begin_process.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

constexpr std::array handledSignals{SIGINT, SIGTERM, SIGHUP};

// The handler uses these variables, hence the types that POSIX allows there; pid_t fits into sig_atomic_t on
// Linux.
volatile sig_atomic_t arrivedSignal = 0;
volatile sig_atomic_t currentChild = 0;
std::array<struct sigaction, handledSignals.size()> previousActions;

void onSignal(int signal) {
    const int savedErrno = errno;
    if (currentChild > 0) {
        // Ask politely first, then force.
        ::kill(currentChild, arrivedSignal == 0 ? SIGTERM : SIGKILL);
    }
    arrivedSignal = signal;
    errno = savedErrno;
}

}  // namespace

InterruptScope::InterruptScope() {
    arrivedSignal = 0;
    struct sigaction action {};
    action.sa_handler = onSignal;  // without SA_RESTART: a blocked password prompt must end
    for (std::size_t i = 0; i < handledSignals.size(); ++i) {
        ::sigaction(handledSignals[i], isIgnoredByCaller(handledSignals[i]) ? nullptr : &action,
                    &previousActions[i]);
    }
}

InterruptScope::~InterruptScope() {
    for (std::size_t i = 0; i < handledSignals.size(); ++i) {
        ::sigaction(handledSignals[i], &previousActions[i], nullptr);
    }
}

bool isInterrupted() noexcept {
    return arrivedSignal != 0;
}

void throwIfInterrupted() {
    if (const int signal = arrivedSignal; signal != 0) {
        throw Error(cat("Interrupted by signal ", signal, " (", ::strsignal(signal), ")"))
            .setExitStatus(128 + signal);
    }
}

SignalForwarding::SignalForwarding(const Child& child) {
    currentChild = child.pid();
    if (arrivedSignal != 0) {
        ::kill(child.pid(), SIGTERM);  // it arrived before the handler knew the child
    }
}

SignalForwarding::~SignalForwarding() {
    currentChild = 0;
}

}  // namespace sarus
