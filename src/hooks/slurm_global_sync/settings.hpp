#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/kit/hook_environment.hpp"
#include "hooks/slurm_global_sync/barrier.hpp"

namespace sarus::hooks::slurm_global_sync {

inline constexpr std::string_view baseVariable = "HOOK_BASE_DIR";
inline constexpr std::string_view passwdVariable = "PASSWD_FILE";
inline constexpr std::string_view timeoutVariable = "SLURM_GLOBAL_SYNC_TIMEOUT";
inline constexpr std::chrono::seconds longestTimeout{3600};

/// What `env` of the hook file says.
struct Settings {
    std::string baseDirectory;          ///< HOOK_BASE_DIR
    std::string passwdFile;             ///< PASSWD_FILE
    std::chrono::seconds timeout{300};  ///< SLURM_GLOBAL_SYNC_TIMEOUT
};

/// Throws Error.
Settings parseSettings(const HookEnvironment& environment);

/// A container's part in a step.
struct Part {
    Step step;
    std::vector<Rank> ranks;  ///< of the tasks in the container, one at least
    std::string node;         ///< of the step; tells nodes that share a kernel apart
};

/// The part of the container whose variables these are: that of its task (SLURM_PROCID), or without this
/// variable that of all tasks of the step on the node (SLURM_GTIDS), which share the container. nullopt for a
/// container outside of a step's tasks. Throws Error for values that are none of Slurm's.
std::optional<Part> findPart(
    const std::function<std::optional<std::string>(std::string_view name)>& variable);

}  // namespace sarus::hooks::slurm_global_sync
