#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oci/hooks/hook_config.hpp"

namespace sarus::engine {

/// The table of `sarus hooks`: name, path, stages.
std::string formatHookTable(const std::vector<oci::HookConfig>& hooks, std::size_t width = 0);

/// The table of `sarus hooks --mpi`: the hooks that `--mpi` can enable, with the pattern of their type.
std::string formatMpiHookTable(const std::vector<oci::HookConfig>& hooks,
                               const std::optional<std::string>& defaultMpiType, std::size_t width = 0);

/// The table of `sarus hooks --check run ...`: which hooks run for a container, at which stages, and the
/// reason for each.
std::string formatFiringTable(const std::vector<oci::HookConfig>& hooks, const oci::HookSubject& subject,
                              std::size_t width = 0);

/// The list of `sarus hooks --json`: an array with an object for each hook (keys: docs/man/sarus-hooks.1),
/// and a newline. With `onlyMpi`, only those that `--mpi` can enable.
std::string formatHookJson(const std::vector<oci::HookConfig>& hooks,
                           const std::optional<std::string>& defaultMpiType, bool onlyMpi);

/// Probable mistakes in a hook file, one line each. `sarus hooks --check` adds those that require the node's
/// files. Pure.
std::vector<std::string> suspiciousConditions(const oci::HookConfig& hook);

/// Hooks of this package whose order prevents them from working, one line each. Pure; `hooks` in the order in
/// which they run.
std::vector<std::string> wrongOrder(const std::vector<oci::HookConfig>& hooks);

/// The SSH hooks of this package beside another one of the same stage, one line each: a container has one SSH
/// daemon. Pure.
std::vector<std::string> secondSshHooks(const std::vector<oci::HookConfig>& hooks);

}  // namespace sarus::engine
