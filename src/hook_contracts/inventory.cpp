#include "hook_contracts/inventory.hpp"

#include <strings.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json/json_node.hpp"

namespace sarus::hook_contracts {

namespace {

using Json = nlohmann::json;
using Node = oci::JsonNode<Json>;

/// Maps the levels of syslog(3) to those of hooks.
constexpr std::array<std::pair<std::string_view, LogLevel>, 10> syslogLevels = {
    {{"LOG_DEBUG", LogLevel::debug},
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
    const auto found = std::find_if(syslogLevels.begin(), syslogLevels.end(),
                                    [&](const auto& level) { return level.first == text; });
    if (found == syslogLevels.end()) {
        node.fail("one of LOG_DEBUG, LOG_INFO, LOG_NOTICE, LOG_WARNING and LOG_ERR");
    }
    return found->second;
}

/// Rejects paths that would have another meaning in the container.
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
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-' || c == '.';
    };
    if (name.empty() || !std::all_of(name.begin(), name.end(), isPlain)) {
        node.fail(expected);
    }
    return name;
}

constexpr std::array<std::string_view, 5> wordsForOn{"all", "1", "true", "yes", "on"};
constexpr std::array<std::string_view, 6> wordsForOff{"none", "void", "0", "false", "no", "off"};

bool isOneOf(std::span<const std::string_view> words, std::string_view text) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
        return word.size() == text.size() && ::strncasecmp(word.data(), text.data(), word.size()) == 0;
    });
}

bool isWordForSwitching(std::string_view name) {
    return isOneOf(wordsForOn, name) || isOneOf(wordsForOff, name);
}

InventoryFeature readFeature(const Node& node) {
    InventoryFeature feature;
    for (const auto& [key, value] :
         node.object("an object with lists of devices, binaries, libraries, ...").items()) {
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
            member.reject("unknown key",
                          "A feature has devices, binaries, libraries, directories and miscellaneous");
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
        member.reject("unknown key",
                      "An inventory has version, log_level, activation_flag, driver_feature and inventory");
    }
}

void checkFeatures(const Inventory& inventory) {
    const auto& features = inventory.features;
    for (auto at = features.begin(); at != features.end(); ++at) {
        if (isWordForSwitching(*at)) {
            throw Error(cat(printable(inventory.file), ": driver_feature: '", *at,
                            "' cannot be the name of a feature"),
                        "Such words switch a vendor on and off");
        }
        if (std::find(features.begin(), at, *at) != at) {
            throw Error(cat(printable(inventory.file), ": driver_feature: '", *at, "' is there twice"));
        }
        if (!inventory.contents.contains(*at)) {
            throw Error(cat(printable(inventory.file), ": driver_feature: '", *at,
                            "' has no object in \"inventory\""));
        }
    }
}

std::string describe(const std::vector<std::string>& features) {
    return cat("There are: all, none", features.empty() ? "" : ", ", join(features, ", "));
}

void appendNew(const std::vector<std::string>& from, std::vector<std::string>& to) {
    for (const auto& path : from) {
        if (std::find(to.begin(), to.end(), path) == to.end()) {
            to.push_back(path);
        }
    }
}

/// The flag in a text that cannot be parsed or trusted, empty if not found. It only decides which containers
/// are refused.
std::string guessActivationFlag(std::string_view text) {
    constexpr std::string_view key = "\"activation_flag\"";
    const auto at = text.find(key);
    if (at == std::string_view::npos) {
        return {};
    }
    const auto rest = trim(text.substr(at + key.size()));
    const auto value = rest.starts_with(':') ? trim(rest.substr(1)) : std::string_view();
    const auto end = value.starts_with('"') ? value.find('"', 1) : std::string_view::npos;
    return end == std::string_view::npos ? std::string() : std::string(value.substr(1, end - 1));
}

/// Marks inventories with the same flag as broken, because the choice between them is ambiguous.
void separateRivals(Inventories& inventories) {
    auto& usable = inventories.usable;
    std::map<std::string, std::vector<std::string>> files;
    for (const auto& inventory : usable) {
        files[inventory.activationFlag].push_back(printable(inventory.file));
    }
    for (const auto& [flag, names] : files) {
        if (names.size() > 1) {
            inventories.broken.push_back(
                {names.front(), flag, cat(join(names, " and "), " have the same activation_flag ", flag)});
        }
    }
    std::erase_if(usable,
                  [&](const Inventory& inventory) { return files[inventory.activationFlag].size() > 1; });
}

}  // namespace

Inventory parseInventory(std::string_view text, const std::string& file) {
    const auto json = oci::parseJson<Json>(text, file);
    const Node document(json, "", file);
    Inventory inventory{
        .file = file, .version = {}, .logLevel = {}, .activationFlag = {}, .features = {}, .contents = {}};
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

Inventories parseInventories(const std::vector<ConfigFile>& files) {
    Inventories inventories;
    for (const auto& file : files) {
        try {
            if (file.problem) {
                throw Error(*file.problem);
            }
            inventories.usable.push_back(parseInventory(file.text, file.path));
        } catch (const Error& error) {
            auto problem = cat(error.what(), error.hint().empty() ? "" : cat(" (", error.hint(), ")"));
            inventories.broken.push_back({file.path, guessActivationFlag(file.text), std::move(problem)});
        }
    }
    separateRivals(inventories);
    return inventories;
}

bool isSwitchedOff(std::string_view value) {
    return isOneOf(wordsForOff, trim(value));
}

std::vector<std::string> selectFeatures(const Inventory& inventory, std::string_view value) {
    constexpr std::size_t longest = 4096;
    if (value.size() > longest) {
        throw Error(
            cat("The container's variable ", inventory.activationFlag, " is longer than ", longest, " bytes"),
            describe(inventory.features));
    }
    const auto whole = trim(value);
    if (whole.empty() || isOneOf(wordsForOn, whole)) {
        return inventory.features;
    }
    if (isSwitchedOff(whole)) {
        return {};
    }
    std::vector<std::string> asked;
    for (const auto& part : split(whole, ',')) {
        const std::string name(trim(part));
        if (isOneOf(wordsForOn, name)) {
            asked = inventory.features;
        } else if (std::find(inventory.features.begin(), inventory.features.end(), name) !=
                   inventory.features.end()) {
            asked.push_back(name);
        } else {
            throw Error(cat("The container's variable ", inventory.activationFlag, " holds '",
                            printable(name.substr(0, 64)), "', which is not a feature of ",
                            printable(inventory.file)),
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

}  // namespace sarus::hook_contracts
