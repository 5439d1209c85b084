#include "oci/inventory.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json_node.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::json;
using Node = JsonNode<Json>;

/// The levels of syslog(3), on those that hooks have.
constexpr std::array<std::pair<std::string_view, LogLevel>, 10> kLevels = {{{"LOG_DEBUG", LogLevel::debug},
                                                                            {"LOG_INFO", LogLevel::info},
                                                                            {"LOG_NOTICE", LogLevel::info},
                                                                            {"LOG_WARNING", LogLevel::warn},
                                                                            {"LOG_WARN", LogLevel::warn},
                                                                            {"LOG_ERR", LogLevel::error},
                                                                            {"LOG_ERROR", LogLevel::error},
                                                                            {"LOG_CRIT", LogLevel::error},
                                                                            {"LOG_ALERT", LogLevel::error},
                                                                            {"LOG_EMERG", LogLevel::error}}};

LogLevel readLevel(const Node& node) {
    const auto text = node.string();
    const auto found = std::find_if(kLevels.begin(), kLevels.end(), [&](const auto& level) { return level.first == text; });
    if (found == kLevels.end()) {
        node.fail("one of LOG_DEBUG, LOG_INFO, LOG_NOTICE, LOG_WARNING and LOG_ERR");
    }
    return found->second;
}

/// No path that means something else in the container than it says.
void requireNormal(const Node& node, std::string_view path) {
    for (const auto& part : split(path.substr(1), '/')) {
        if (part.empty() || part == "." || part == "..") {
            node.fail("a path without empty components, '.' and '..'");
        }
    }
}

std::string readPath(const Node& node) {
    auto path = node.absolutePath();
    requireNormal(node, path);
    return path;
}

/// A name below /dev, or the whole path.
std::string readDevice(const Node& node) {
    constexpr std::string_view directory = "/dev/";
    auto name = node.string("the name of a device below /dev");
    auto path = name.starts_with(directory) ? name : cat(directory, name);
    requireNormal(node, path);
    return path;
}

std::string readName(const Node& node) {
    constexpr std::string_view expected = "a name of letters, digits, '_', '-' and '.'";
    auto name = node.string(expected);
    const auto isPlain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    };
    if (name.empty() || !std::all_of(name.begin(), name.end(), isPlain)) {
        node.fail(expected);
    }
    return name;
}

bool isWordForSwitching(std::string_view name) {
    return name == "all" || name == "none" || name == "void" || name == "0";
}

InventoryFeature readFeature(const Node& node) {
    InventoryFeature feature;
    for (const auto& [key, value] : node.object("an object with lists of devices, binaries, libraries, ...").items()) {
        const auto member = node.member(key, value);
        if (key == "devices") {
            feature.devices = member.list("a list of devices", readDevice);
        } else if (key == "binaries") {
            feature.binaries = member.list("a list of paths", readPath);
        } else if (key == "libraries") {
            feature.libraries = member.list("a list of paths", readPath);
        } else if (key == "directories") {
            feature.directories = member.list("a list of paths", readPath);
        } else if (key == "miscellaneous") {
            feature.miscellaneous = member.list("a list of paths", readPath);
        } else {
            member.reject("unknown key", "a feature has devices, binaries, libraries, directories and miscellaneous");
        }
    }
    return feature;
}

void readMember(const Node& member, std::string_view key, Inventory& inventory) {
    if (key == "version") {
        inventory.version = member.string();
    } else if (key == "log_level") {
        inventory.logLevel = readLevel(member);
    } else if (key == "activation_flag") {
        inventory.activationFlag = readName(member);
    } else if (key == "driver_feature") {
        inventory.features = member.list("a list of features", readName);
    } else if (key == "inventory") {
        for (const auto& [name, value] : member.object("an object with the features").items()) {
            inventory.contents.emplace(name, readFeature(member.member(name, value)));
        }
    } else {
        member.reject("unknown key", "an inventory has version, log_level, activation_flag, driver_feature and inventory");
    }
}

void checkFeatures(const Inventory& inventory) {
    const auto& features = inventory.features;
    for (auto at = features.begin(); at != features.end(); ++at) {
        if (isWordForSwitching(*at)) {
            throw Error(cat(printable(inventory.file), ": driver_feature: '", *at, "' cannot be the name of a feature"),
                        "all, none, void and 0 switch a vendor on and off");
        }
        if (std::find(features.begin(), at, *at) != at) {
            throw Error(cat(printable(inventory.file), ": driver_feature: '", *at, "' is there twice"));
        }
        if (!inventory.contents.contains(*at)) {
            throw Error(cat(printable(inventory.file), ": driver_feature: '", *at, "' has no object in \"inventory\""));
        }
    }
}

std::string describe(const std::vector<std::string>& features) {
    return cat("there are: all, none", features.empty() ? "" : ", ", join(features, ", "));
}

void appendNew(const std::vector<std::string>& from, std::vector<std::string>& to) {
    for (const auto& path : from) {
        if (std::find(to.begin(), to.end(), path) == to.end()) {
            to.push_back(path);
        }
    }
}

}  // namespace

Inventory parseInventory(std::string_view text, const std::string& file) {
    const auto json = parseJson<Json>(text, file);
    const Node document(json, "", file);
    Inventory inventory{.file = file, .version = {}, .logLevel = {}, .activationFlag = {}, .features = {}, .contents = {}};
    for (const auto& [key, value] : document.object().items()) {
        readMember(document.member(key, value), key, inventory);
    }
    for (const auto* key : {"activation_flag", "driver_feature", "inventory"}) {
        if (!json.contains(key)) {
            throw Error(cat(printable(file), ": the key \"", key, "\" is missing"));
        }
    }
    checkFeatures(inventory);
    return inventory;
}

std::vector<std::string> selectFeatures(const Inventory& inventory, std::string_view value) {
    constexpr std::size_t longest = 4096;
    if (value.size() > longest) {
        throw Error(cat("The container's variable ", inventory.activationFlag, " is longer than ", longest, " bytes"),
                    describe(inventory.features));
    }
    const auto whole = trim(value);
    if (whole.empty() || whole == "all") {
        return inventory.features;
    }
    if (isWordForSwitching(whole)) {
        return {};
    }
    std::vector<std::string> asked;
    for (const auto& part : split(whole, ',')) {
        const std::string name(trim(part));
        if (name == "all") {
            asked = inventory.features;
        } else if (std::find(inventory.features.begin(), inventory.features.end(), name) != inventory.features.end()) {
            asked.push_back(name);
        } else {
            throw Error(cat("The container's variable ", inventory.activationFlag, " holds '", printable(name.substr(0, 64)),
                            "', which is no feature of ", printable(inventory.file)),
                        describe(inventory.features));
        }
    }
    std::vector<std::string> selected;
    for (const auto& feature : inventory.features) {
        if (std::find(asked.begin(), asked.end(), feature) != asked.end()) {
            selected.push_back(feature);
        }
    }
    return selected;
}

InventoryFeature mergeFeatures(const Inventory& inventory, const std::vector<std::string>& features) {
    InventoryFeature merged;
    for (const auto& name : features) {
        const auto& feature = inventory.contents.at(name);
        appendNew(feature.devices, merged.devices);
        appendNew(feature.binaries, merged.binaries);
        appendNew(feature.libraries, merged.libraries);
        appendNew(feature.directories, merged.directories);
        appendNew(feature.miscellaneous, merged.miscellaneous);
    }
    return merged;
}

}  // namespace sarus::oci
