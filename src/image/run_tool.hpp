#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/subprocess.hpp"

namespace sarus::image {

/// What a tool's standard streams are connected to.
enum class ToolStreams { captureBoth, captureErrors };

struct ToolResult {
    ExitStatus status;
    std::string out;  ///< what was captured, at most 8 MiB of each
    std::string err;
};

/// Somebody who looks after a program from time to time while it runs. What `look` throws ends the program (SIGKILL).
struct ToolWatch {
    std::chrono::milliseconds interval;
    std::function<void()> look;
};

/// Runs a program to its end with the caller's environment; signals which arrive within an InterruptScope end it, and then the
/// function throws as throwIfInterrupted() does. `package` is the Debian package which is named if the program is not there.
ToolResult runTool(const Command& command, ToolStreams streams, std::string_view package,
                   const std::optional<ToolWatch>& watch = std::nullopt);

}  // namespace sarus::image
