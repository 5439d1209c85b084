#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hook_contracts/hook_call.hpp"

namespace sarus::hook_contracts {

/// A hook program of this package, and what other programs need to know about it.
struct ShippedHook {
    std::string_view program;  ///< its file name
    std::span<const std::string_view> stages;
    /// Its contract: the devices that it may add to the container. Paths may be missing or not devices.
    /// Throws Error if the hook would refuse its arguments. nullptr: it adds none.
    std::vector<HookDevice> (*devices)(const HookCall& call) = nullptr;
    /// It has effects outside of the container, so no image may enable it.
    bool reachesOutside = false;
};

/// All of them.
std::span<const ShippedHook> shippedHooks();

/// The one with this file name; `path` may be a path. nullptr if there is none. A site's own program may have
/// the same name: before refusing a hook, check that the file belongs to this package.
const ShippedHook* findShippedHook(std::string_view path);

/// Why the package's hook program `path` must not run at `stage`; nullopt if it may, or if it does not belong
/// to the package.
std::optional<std::string> explainUnsupportedStage(std::string_view path, std::string_view stage);

/// The devices that a hook of this package will allow in the container's device cgroup. On version 2 it
/// cannot do so itself, so the runtime must know them in advance. Empty if the hook will refuse the
/// container.
std::vector<HookDevice> devicesOfHook(const HookCall& call);

}  // namespace sarus::hook_contracts
