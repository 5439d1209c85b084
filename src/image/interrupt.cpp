#include "image/interrupt.hpp"

#include <signal.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

constexpr std::array handledSignals{SIGINT, SIGTERM, SIGHUP};

// Read and written by the handler, hence of the types which POSIX allows there; pid_t fits into sig_atomic_t on Linux.
volatile sig_atomic_t arrivedSignal = 0;
volatile sig_atomic_t currentChild = 0;
std::array<struct sigaction, handledSignals.size()> previousActions;

void onSignal(int signal) {
    const int savedErrno = errno;
    if (currentChild > 0) {
        // The first request is a polite one; whoever asks twice means it.
        ::kill(currentChild, arrivedSignal == 0 ? SIGTERM : SIGKILL);
    }
    arrivedSignal = signal;
    errno = savedErrno;
}

}  // namespace

InterruptScope::InterruptScope() {
    arrivedSignal = 0;
    struct sigaction action {};
    action.sa_handler = onSignal;  // without SA_RESTART: a blocked read of a password must end
    for (std::size_t i = 0; i < handledSignals.size(); ++i) {
        ::sigaction(handledSignals[i], nullptr, &previousActions[i]);
        if (previousActions[i].sa_handler != SIG_IGN) {  // nohup stays nohup
            ::sigaction(handledSignals[i], &action, nullptr);
        }
    }
}

InterruptScope::~InterruptScope() {
    for (std::size_t i = 0; i < handledSignals.size(); ++i) {
        ::sigaction(handledSignals[i], &previousActions[i], nullptr);
    }
}

void throwIfInterrupted() {
    if (const int signal = arrivedSignal; signal != 0) {
        throw Error(cat("Interrupted by signal ", signal, " (", ::strsignal(signal), ")")).setExitStatus(128 + signal);
    }
}

SignalForwarding::SignalForwarding(const Child& child) {
    currentChild = child.pid();
    if (arrivedSignal != 0) {
        ::kill(child.pid(), SIGTERM);  // it came before the handler knew the child
    }
}

SignalForwarding::~SignalForwarding() {
    currentChild = 0;
}

}  // namespace sarus::image
