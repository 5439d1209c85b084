#pragma once

#include "base/subprocess.hpp"

namespace sarus::image {

/// While it lives, SIGINT, SIGTERM and SIGHUP do not end the program: they end the child that is being waited for (waitFor), and
/// the next throwIfInterrupted() throws, so that everything temporary is removed by destructors. Not nestable, one thread only.
class InterruptScope {
public:
    InterruptScope();
    ~InterruptScope();
    InterruptScope(const InterruptScope&) = delete;
    InterruptScope& operator=(const InterruptScope&) = delete;
};

/// Throws Error (exit status 128 + signal) if a signal has arrived within the current InterruptScope.
void throwIfInterrupted();

/// child.wait(), passing signals on to the child; throws like throwIfInterrupted() once the child has ended.
ExitStatus waitFor(Child& child);

}  // namespace sarus::image
