#pragma once

#include <string>

#include "base/subprocess.hpp"

namespace sarus::image {

/// What a tool's standard streams are connected to.
enum class ToolStreams { captureBoth, captureErrors, captureOutput };

struct ToolResult {
    ExitStatus status;
    std::string out;  ///< what was captured, at most `limit` bytes of each
    std::string err;
};

/// Runs a program to its end with the caller's environment; signals which arrive within an InterruptScope end it, and then the
/// function throws as throwIfInterrupted() does. `package` is the Debian package which is named if the program is not there.
ToolResult runTool(const Command& command, ToolStreams streams, std::string_view package, std::size_t limit = 8U << 20U);

}  // namespace sarus::image
