#pragma once

#include <algorithm>
#include <chrono>
#include <climits>

namespace sarus {

/// For poll(2) and others like it: rounded up, so that nobody wakes up too early; 0 when `end` has passed.
inline int millisecondsUntil(std::chrono::steady_clock::time_point end) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    return static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX));
}

}  // namespace sarus
