#include "hook_contracts/decorator.hpp"

#include <utility>

#include "base/text.hpp"

namespace sarus::hook_contracts {

DecoratorArguments parseDecoratorArguments(std::span<const std::string> arguments) {
    constexpr std::string_view configDirectory = "--config-dir=";
    DecoratorArguments parsed;
    for (const auto& argument : arguments) {
        if (argument.starts_with(configDirectory)) {
            parsed.directory = argument.substr(configDirectory.size());
            parsed.isDefaultDirectory = false;
            if (!parsed.directory.starts_with('/')) {
                throw Error(cat("--config-dir: not an absolute path: '", printable(parsed.directory), "'"));
            }
        } else if (argument == "--mode=bind" || argument == "--mode=copy") {
            parsed.copy = argument == "--mode=copy";
        } else {
            throw Error(cat("Unknown argument ", printable(argument)),
                        "\"args\" in the hook's JSON file are decorator_hook, --config-dir=DIRECTORY and "
                        "--mode=bind or --mode=copy");
        }
    }
    return parsed;
}

std::vector<Decoration> selectDecorations(
    std::vector<Inventory> inventories,
    const std::function<std::optional<std::string>(const std::string& name)>& variable) {
    std::vector<Decoration> decorations;
    for (auto& inventory : inventories) {
        if (const auto value = variable(inventory.activationFlag)) {
            auto features = selectFeatures(inventory, *value);
            auto edits = mergeFeatures(inventory, features);
            decorations.push_back({std::move(inventory), std::move(features), std::move(edits)});
        }
    }
    return decorations;
}

std::vector<HookDevice> devicesOfDecoratorHook(const HookCall& call) {
    const auto directory = parseDecoratorArguments(withoutProgram(call.hook.args)).directory;
    std::vector<HookDevice> devices;
    for (auto& decoration :
         selectDecorations(parseInventories(call.readFiles(directory)).usable, call.variable)) {
        for (auto& device : decoration.edits.devices) {
            devices.push_back({std::move(device), "rw"});
        }
    }
    return devices;
}

}  // namespace sarus::hook_contracts
