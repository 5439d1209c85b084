#pragma once

#include <unistd.h>

#include <functional>

namespace sarus::test {

/// Whether a condition comes true in time. It is evaluated once a millisecond.
inline bool eventually(const std::function<bool()>& condition, int milliseconds = 120'000) {
    for (int i = 0; i < milliseconds && !condition(); ++i) {
        ::usleep(1000);
    }
    return condition();
}

}  // namespace sarus::test
