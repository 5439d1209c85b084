#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oci/hook_config.hpp"

namespace sarus::engine {

/// The table of `sarus hooks`: name, path, stages.
std::string formatHookTable(const std::vector<oci::HookConfig>& hooks);

/// The table of `sarus hooks --mpi`: the hooks that `--mpi` can enable, with the pattern of their type.
std::string formatMpiHookTable(const std::vector<oci::HookConfig>& hooks, const std::optional<std::string>& defaultMpiType);

/// The table of `sarus hooks --check run ...`: which hooks run for a container, at which stages, and why, or why not.
std::string formatFiringTable(const std::vector<oci::HookConfig>& hooks, const oci::HookSubject& subject);

/// The list of `sarus hooks --json`: an array with an object for each hook (keys: docs/man/sarus-hooks.1), and a newline. With
/// `onlyMpi`, only those which `--mpi` can enable.
std::string formatHookJson(const std::vector<oci::HookConfig>& hooks, const std::optional<std::string>& defaultMpiType,
                           bool onlyMpi);

/// What is probably not meant in a hook file, each as one line; `sarus hooks --check` adds what needs the node's files. Pure.
std::vector<std::string> suspiciousConditions(const oci::HookConfig& hook);

}  // namespace sarus::engine
