#pragma once

#include <map>
#include <string>
#include <string_view>

// What a container's caller may tell hooks of this package, and its image may not.

namespace sarus::hook_contracts {

/// Whether the annotation belongs to a hook of this package, and enables or steers something outside of the
/// container: an image must not set it.
bool isCallersAnnotation(std::string_view key);

/// The first of these keys, or "".
std::string firstCallersAnnotation(const std::map<std::string, std::string>& annotations);

/// Whether the variable names a file of the host, or the container's task, for a hook of this package.
bool isCallersVariable(std::string_view name);

/// The variable in a hook's `env` that says `true` where no image can have set what isCallersAnnotation() and
/// isCallersVariable() name. The engine sets it for every hook. Elsewhere it is the administrator's decision.
inline constexpr const char* trustVariable = "HOOK_TRUST_CONTAINER";

/// The variable by which the engine tells precreate hooks the directory to which a relative `root.path` of
/// config.json belongs. It is set behind the `env` of the hook's JSON file.
inline constexpr const char* bundleVariable = "HOOK_BUNDLE";

/// The annotation by which the engine tells hooks the node's uid of its caller. Nobody else can set it in
/// front of a hook that believes it: it is one of the caller's.
inline constexpr const char* callersUidAnnotation = "com.hooks.caller.uid";

}  // namespace sarus::hook_contracts
