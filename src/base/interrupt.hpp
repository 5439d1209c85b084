#pragma once

#include "base/subprocess.hpp"

namespace sarus {

/// While it lives, SIGINT, SIGTERM and SIGHUP do not end the program. Instead they end the child being waited
/// for (SignalForwarding), and the next throwIfInterrupted() throws, so that destructors remove everything
/// temporary. Not nestable; one thread only.
class InterruptScope {
public:
    InterruptScope();
    ~InterruptScope();
    InterruptScope(const InterruptScope&) = delete;
    InterruptScope& operator=(const InterruptScope&) = delete;
};

/// Whether a signal has arrived within the current InterruptScope.
bool isInterrupted() noexcept;

/// Throws Error (exit status 128 + signal) if a signal has arrived within the current InterruptScope.
void throwIfInterrupted();

/// While it lives, forwards the first signal to the child as SIGTERM, and the second one as SIGKILL.
class SignalForwarding {
public:
    explicit SignalForwarding(const Child& child);
    ~SignalForwarding();
    SignalForwarding(const SignalForwarding&) = delete;
    SignalForwarding& operator=(const SignalForwarding&) = delete;
};

}  // namespace sarus
