#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "hooks/kit/hook_logger.hpp"

namespace sarus::hooks::mps {

/// The file name of NVIDIA's control program.
inline constexpr const char* controlProgram = "nvidia-cuda-mps-control";

/// Asks the control daemon of CUDA MPS through NVIDIA's program, which reads commands from its standard input
/// (NVIDIA "Multi-Process Service", "nvidia-cuda-mps-control"). Runs with the rights of this process.
class Control {
public:
    using Clock = std::chrono::steady_clock;

    /// `path`: the program; `environment`: all that it gets. After the deadline every question throws Error.
    Control(std::string path, std::vector<std::string> environment, Clock::time_point deadline);

    /// The servers that have registered; nullopt if no control daemon answers. Throws Error.
    std::optional<std::vector<pid_t>> servers() const;
    /// Whether the daemon accepts to start a server for this user. The server registers later. Throws Error.
    bool startServer(uid_t uid) const;
    /// Starts the daemon, which inherits nothing of this process. Returns what the program says if it fails,
    /// as where there is a daemon already; else "". Throws Error.
    std::string startDaemon() const;

private:
    struct Answer {
        ExitStatus status;
        std::string text;
    };
    Answer ask(const std::string& command) const;

    std::string path;
    std::vector<std::string> environment;
    Clock::time_point deadline;
};

/// Makes sure that a server of `uid` has registered: starts the daemon and the server where there is none, in
/// two rounds at most. `localUid`: the same user as this user namespace knows him. Throws Error.
void ensureServer(const Control& control, uid_t uid, uid_t localUid, Control::Clock::time_point deadline,
                  const HookLogger& log);

}  // namespace sarus::hooks::mps
