#include "image/build/read/docker_archive.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "base/text.hpp"
#include "image/build/read/image_json.hpp"
#include "image/build/read/image_names.hpp"

namespace sarus::image::build {

namespace {

constexpr const char* manifestName = "manifest.json";
constexpr std::size_t mostImages = 256;

std::vector<std::string> strings(const Json& item, const char* key) {
    const auto found = item.find(key);
    if (found == item.end() || found->is_null()) {
        return {};
    }
    const bool valid = found->is_array() &&
                       std::all_of(found->begin(), found->end(), [](const Json& s) { return s.is_string(); });
    if (!valid) {
        throw Error(cat('"', key, "\" of ", manifestName, " is not a list of strings"));
    }
    return found->get<std::vector<std::string>>();
}

/// One of the images of manifest.json.
struct Item {
    std::string config;  ///< member with the configuration
    std::vector<std::string> names;
    std::vector<std::string> layers;
};

std::vector<Item> readItems(const SourceFiles& files) {
    const Json manifest = parseJson(readSmallFile(files, manifestName, largestManifest), manifestName);
    if (!manifest.is_array() || manifest.empty() || manifest.size() > mostImages) {
        throw Error(cat(manifestName, " is not a list of 1 to ", mostImages, " images"));
    }
    std::vector<Item> items;
    for (const auto& item : manifest) {
        if (!item.is_object() || stringMember(item, "Config").empty()) {
            throw Error(cat("An image of ", manifestName, " lacks \"Config\""));
        }
        items.push_back({stringMember(item, "Config"), strings(item, "RepoTags"), strings(item, "Layers")});
    }
    return items;
}

/// Whether a configuration's name contains a different digest: "<hex>.json" or "blobs/sha256/<hex>".
bool namesAnotherDigest(std::string_view name, const Digest& digest) {
    name.remove_prefix(std::min(name.size(), name.rfind('/') + 1));
    if (name.ends_with(".json")) {
        name.remove_suffix(5);
    }
    const bool isDigest = name.size() == 64 && isHex(name);
    return isDigest && name != digest.hex();
}

struct Configuration {
    std::string text;
    Digest digest;
    Json json;
};

Configuration readConfiguration(const SourceFiles& files, const Item& item) {
    auto text = readSmallFile(files, item.config, largestConfig);
    const auto digest = digestOf("sha256", text);
    if (namesAnotherDigest(item.config, digest)) {
        throw Error(cat("The content of the image configuration ", printable(item.config),
                        " does not match its digest"),
                    "The archive is damaged: make it again");
    }
    auto json = parseJsonObject(text, cat("image configuration ", printable(item.config)));
    return {std::move(text), digest, std::move(json)};
}

/// The items with this name; all if the name is empty.
std::vector<const Item*> candidates(const std::vector<Item>& items, const std::string& name) {
    std::vector<const Item*> named;
    std::vector<const Item*> all;
    for (const auto& item : items) {
        all.push_back(&item);
        if (std::any_of(item.names.begin(), item.names.end(),
                        [&](const auto& tag) { return sameImageName(tag, name); })) {
            named.push_back(&item);
        }
    }
    return named.empty() ? all : named;
}

struct Choice {
    const Item* item;
    Configuration configuration;
};

Choice choose(const SourceFiles& files, const std::vector<Item>& items, const ImageSelection& selection) {
    const auto wanted = selection.platform.value_or(oci::hostPlatform());
    std::optional<Choice> best;
    int bestRank = -2;
    std::vector<std::string> names;
    bool several = false;
    for (const auto* item : candidates(items, selection.name)) {
        auto configuration = readConfiguration(files, *item);
        const int value = oci::suitability(wanted, platformOfConfig(configuration.json));
        if (value < bestRank) {
            continue;
        }
        if (value > bestRank) {
            names.clear();
            several = false;
        }
        names.push_back(item->names.empty() ? "(without a name)" : printable(item->names[0]));
        several = several || (value == bestRank && !(configuration.digest == best->configuration.digest));
        bestRank = value;
        best = Choice{item, std::move(configuration)};
    }
    if (several) {
        throw Error(cat("The archive has several images: ", join(names, ", ")),
                    "Load one under its own name, and give it another one with 'sarus tag'");
    }
    return std::move(*best);
}

}  // namespace

SourceImage openDockerArchive(const std::shared_ptr<const SourceFiles>& files,
                              const ImageSelection& selection) {
    const auto items = readItems(*files);
    auto [item, configuration] = choose(*files, items, selection);
    checkPlatform(configuration.json, selection.platform);
    const auto digests = diffIds(configuration.json, item->layers.size());
    std::vector<Layer> layers;
    for (std::size_t i = 0; i < digests.size(); ++i) {
        layers.push_back(
            {files, item->layers[i], std::nullopt, files->open(item->layers[i]).size, digests[i]});
    }
    const auto& names = item->names;
    const auto same = std::find_if(names.begin(), names.end(),
                                   [&](const auto& n) { return sameImageName(n, selection.name); });
    return {std::nullopt, configuration.digest, std::move(layers), std::move(configuration.text),
            same != names.end() ? *same
            : names.empty()     ? std::string()
                                : names.front()};
}

}  // namespace sarus::image::build
