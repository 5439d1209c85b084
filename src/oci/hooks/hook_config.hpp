#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oci/runtime/runtime_config.hpp"

namespace sarus::oci {

/// The stages of a hook, in the order in which they happen. `precreate` is not a stage of the runtime: the
/// engine itself runs such a hook before it calls the runtime.
inline constexpr std::string_view precreateStage = "precreate";
const std::vector<std::string>& hookStages();

/// `when` of a hook file; all conditions that are set must hold. Patterns are RE2 expressions that must match
/// the whole text.
struct HookConditions {
    std::optional<bool> always;
    /// Pattern of the key, pattern of the value.
    std::vector<std::pair<std::string, std::string>> annotations;
    std::vector<std::string> commands;  ///< any of them
    std::optional<bool> hasBindMounts;
};

/// One OCI hook configuration file, version 1.0.0.
struct HookConfig {
    std::string file;                              ///< its path
    RuntimeHook hook;                              ///< `env` has only the last of repeated variables
    std::vector<std::string> repeatedVariables{};  ///< their names
    HookConditions when;
    std::vector<std::string> stages;

    /// The file name without directory and ".json".
    std::string name() const;
};

/// What the conditions are matched against.
struct HookSubject {
    const std::map<std::string, std::string>& annotations;
    std::string_view command;  ///< argv[0] of the container's final command line
    bool hasBindMounts = false;
};

/// Parses and validates the text of a hook file. Throws Error naming `file`, the key's path and the expected
/// value.
HookConfig parseHookConfig(std::string_view json, std::string_view file);

/// The conditions that decide, in words: all of them for a hook that runs, otherwise those that do not hold.
std::string explainConditions(const HookConditions& conditions, const HookSubject& subject);

/// True if every condition of the hook holds.
bool hookFires(const HookConditions& conditions, const HookSubject& subject);

/// True if the pattern matches the whole text. An invalid pattern matches nothing.
bool matchesWhole(const std::string& pattern, std::string_view text);

/// The type shown by `sarus hooks --mpi`: the value pattern of the hook's condition for "com.hooks.mpi.type",
/// "" if it has none; nullopt if "com.hooks.mpi.enabled=true" does not enable the hook.
std::optional<std::string> mpiTypePattern(const HookConditions& conditions);

/// True if the hook has a condition on this annotation.
bool dependsOnAnnotation(const HookConditions& conditions, std::string_view key);

}  // namespace sarus::oci
