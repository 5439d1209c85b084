#include "engine/old_configuration.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "engine/site_config_reference.hpp"
#include "oci/json/json_node.hpp"

namespace sarus::engine {

namespace {

using FileJson = nlohmann::ordered_json;
using FileNode = oci::JsonNode<FileJson>;

/// Keys that Sarus 1.7 required and that Sarus accepts without effect.
constexpr std::array keysWithoutEffect{
    std::pair<std::string_view, std::string_view>{"umociPath", "has no effect: Sarus unpacks images itself"},
    std::pair<std::string_view, std::string_view>{
        "mksquashfsPath",
        "has no effect: Sarus writes squashfs files itself, and reads `mksquashfsOptions`"}};

std::string placeOf(const std::string& object, const std::string& key) {
    return object.empty() ? printable(key) : cat(object, ".", printable(key));
}

ConfigurationFinding unknownKey(std::string place, const std::string& name,
                                const std::vector<KeyDescription>& keys) {
    std::vector<std::string> names;
    for (const auto& key : keys) {
        names.emplace_back(key.name);
    }
    const auto guess = closestMatch(name, names);
    return {.key = std::move(place),
            .message = "unknown key, ignored as by Sarus 1.7",
            .hint = guess ? cat("Did you mean '", *guess, "'?") : "Remove it"};
}

void checkObject(const FileJson& object, const std::string& place, const std::vector<KeyDescription>& keys,
                 std::vector<ConfigurationFinding>& findings) {
    if (!object.is_object()) {
        return;  // parseSiteConfig() reports it
    }
    for (const auto& [name, value] : object.items()) {
        const auto path = placeOf(place, name);
        const auto& key = name;
        const auto known = std::find_if(keys.begin(), keys.end(),
                                        [&](const auto& candidate) { return candidate.name == key; });
        if (known == keys.end()) {
            findings.push_back(unknownKey(path, name, keys));
            continue;
        }
        const auto description = known->value();
        if (description.isList && !description.members.empty() && value.is_array()) {
            for (std::size_t i = 0; i < value.size(); ++i) {
                checkObject(value[i], cat(path, "[", i, "]"), description.members, findings);
            }
        } else if (!description.isList && !description.members.empty()) {
            checkObject(value, path, description.members, findings);
        }
    }
}

}  // namespace

std::vector<ConfigurationFinding> checkOldConfiguration(std::string_view json, std::string_view fileName) {
    const auto document = oci::parseJson<FileJson>(json, fileName);
    std::vector<ConfigurationFinding> findings;
    checkObject(FileNode(document, "", fileName).object(), "", siteConfigKeys(), findings);
    for (const auto& [name, message] : keysWithoutEffect) {
        if (document.contains(name)) {
            findings.push_back(
                {.key = std::string(name), .message = std::string(message), .hint = "Remove it"});
        }
    }
    return findings;
}

}  // namespace sarus::engine
