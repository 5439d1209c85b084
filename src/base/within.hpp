#pragma once

#include <unistd.h>

namespace sarus {

/// Whether the condition becomes true within this time, at once or at one of the looks at it, every 5 ms.
template <typename Condition>
bool within(int milliseconds, Condition condition) {
    constexpr int interval = 5;
    for (int waited = 0; !condition(); waited += interval) {
        if (waited >= milliseconds) {
            return false;
        }
        ::usleep(interval * 1000);
    }
    return true;
}

}  // namespace sarus
