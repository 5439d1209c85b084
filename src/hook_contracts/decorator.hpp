#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hook_contracts/hook_call.hpp"
#include "hook_contracts/inventory.hpp"

namespace sarus::hook_contracts {

/// The command line of decorator_hook.
struct DecoratorArguments {
    std::string directory{"/etc/oci-decorator/oci-decorator.d"};  ///< of the inventories
    bool isDefaultDirectory = true;
    bool copy = false;
};

/// `arguments` are without the program's name. Throws Error.
DecoratorArguments parseDecoratorArguments(std::span<const std::string> arguments);

/// The edits for one vendor.
struct Decoration {
    Inventory inventory;
    std::vector<std::string> features;  ///< empty: the container has disabled the vendor
    InventoryFeature edits;             ///< of these features together
};

/// The features that the container's variables request from the inventories. Throws Error for a feature that
/// an inventory lacks.
std::vector<Decoration> selectDecorations(
    std::vector<Inventory> inventories,
    const std::function<std::optional<std::string>(const std::string& name)>& variable);

std::vector<HookDevice> devicesOfDecoratorHook(const HookCall& call);

}  // namespace sarus::hook_contracts
