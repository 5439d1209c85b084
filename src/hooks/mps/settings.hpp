#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/kit/hook_environment.hpp"

namespace sarus::hooks::mps {

/// Without the variables, clients look for the control daemon there and write logs there.
inline constexpr std::string_view defaultPipeDirectory = "/tmp/nvidia-mps";
inline constexpr std::string_view defaultLogDirectory = "/var/log/nvidia-mps";
inline constexpr std::string_view pipeVariable = "CUDA_MPS_PIPE_DIRECTORY";
inline constexpr std::string_view logVariable = "CUDA_MPS_LOG_DIRECTORY";

/// What `env` of the hook file says. All directories are absolute paths on the node.
struct Settings {
    std::string searchPath;      ///< PATH: where the control program is
    std::string pipeDirectory;   ///< CUDA_MPS_PIPE_DIRECTORY
    std::string logDirectory;    ///< CUDA_MPS_LOG_DIRECTORY; empty: the program's own
    std::string userDirectory;   ///< MPS_USER_DIRECTORY: holds directories of each user; empty: one pipe
                                 ///< directory for all
    std::string visibleDevices;  ///< CUDA_VISIBLE_DEVICES of the daemon; empty: all
    std::chrono::seconds timeout{30};  ///< MPS_TIMEOUT

    /// The directory of a user below userDirectory.
    std::string directoryOf(uid_t uid) const;
    /// All variables that the control program gets.
    std::vector<std::string> environment() const;
};

/// Throws Error.
Settings parseSettings(const HookEnvironment& environment);

}  // namespace sarus::hooks::mps
