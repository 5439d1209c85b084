#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_files.hpp"
#include "oci/runtime/runtime_config.hpp"

namespace sarus::hook_contracts {

/// A device that a hook adds to the container, or a directory of such devices, with the access that it
/// grants.
struct HookDevice {
    std::string path;
    std::string access;
    bool operator==(const HookDevice&) const = default;
};

/// `args` of a hook's JSON file without the program's name.
inline std::span<const std::string> withoutProgram(const std::vector<std::string>& args) {
    return std::span(args).subspan(args.empty() ? 0 : 1);
}

/// A hook's call and the only inputs of its contract, which reads nothing itself.
struct HookCall {
    const oci::RuntimeHook& hook;
    /// A variable of the container's process.
    std::function<std::optional<std::string>(const std::string& name)> variable;
    /// The files "*.cfg" and "*.json" of a directory that the hook reads (readTrustedFiles()).
    std::function<std::vector<ConfigFile>(const std::string& directory)> readFiles;
};

}  // namespace sarus::hook_contracts
