#pragma once

#include <chrono>
#include <string_view>

#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::starter {

/// With --debug, logs how long each step took.
class StepTimer {
public:
    void done(std::string_view step) {
        const auto now = std::chrono::steady_clock::now();
        if (logLevel() == LogLevel::debug) {
            const auto took = std::chrono::duration_cast<std::chrono::microseconds>(now - last);
            logDebug("Runtime", cat(step, " took ", took.count(), " us"));
        }
        last = now;
    }

private:
    std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

}  // namespace sarus::starter
