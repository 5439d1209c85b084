#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/subprocess.hpp"

namespace sarus::image {

/// Where a tool's standard streams go.
enum class ToolStreams { captureBoth, captureErrors };

struct ToolResult {
    ExitStatus status;
    std::string out;  ///< captured output, at most 8 MiB of each stream
    std::string err;
};

/// Periodically calls `look` while a program runs, and `hear` with the pieces of its standard error. An
/// exception from them ends the program (SIGKILL).
struct ToolWatch {
    std::chrono::milliseconds interval;
    std::function<void(pid_t program)> look;
    std::function<void(std::string_view piece)> hear{};
};

/// A process that kills a process group if the thread that made it ends, even by SIGKILL: the signal of
/// Command::dieWithParent reaches a program, but not what that has started. The destructor ends it.
class GroupGuard {
public:
    GroupGuard() noexcept = default;
    explicit GroupGuard(pid_t group) noexcept;
    GroupGuard(GroupGuard&& other) noexcept : id(std::exchange(other.id, -1)) {}
    GroupGuard& operator=(GroupGuard&& other) noexcept {
        std::swap(id, other.id);
        return *this;
    }
    ~GroupGuard();

private:
    pid_t id = -1;
};

/// A running program, and the guard of its group.
struct Tool {
    GroupGuard guard;  // is destroyed last
    Child process;
};

/// Starts a program in the root directory, in a process group of its own that also ends when this program is
/// killed. `package` is the Debian package to name if the program is missing. Throws as throwIfInterrupted()
/// does.
Tool startTool(Command command, std::string_view package);

/// Runs a program to its end with the caller's environment, in a process group that ends with it. At log
/// level debug its standard error is shown while it runs. Signals within an InterruptScope end it, and a
/// second later all that is left of its process group; then the function throws as throwIfInterrupted() does.
/// `package`: as for startTool().
ToolResult runTool(const Command& command, ToolStreams streams, std::string_view package,
                   const std::optional<ToolWatch>& watch = std::nullopt);

}  // namespace sarus::image
