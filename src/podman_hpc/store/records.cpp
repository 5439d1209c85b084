#include "podman_hpc/store/records.hpp"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "base/text.hpp"
#include "oci/json/json_node.hpp"

namespace sarus::podman_hpc {

namespace {

using Json = nlohmann::ordered_json;
using Node = oci::JsonNode<Json>;

constexpr std::size_t idLength = 64;

std::string optionalString(const Node& node, const char* key) {
    const auto found = node.value().find(key);
    return found == node.value().end() || found->is_null() ? std::string()
                                                           : node.member(key, *found).string();
}

std::string layerId(const Node& node, const char* key, bool mayLack) {
    auto id = optionalString(node, key);
    if (!(id.empty() && mayLack) && (id.size() != idLength || !isHex(id))) {
        node.reject(cat(key, " '", printable(id), "' is not an id of 64 hexadecimal digits"));
    }
    return id;
}

template <typename Record, typename Read>
std::vector<Record> parseList(std::string_view text, const std::string& file, Read read) {
    if (trim(text).empty()) {
        return {};
    }
    const auto document = oci::parseJson<Json>(text, file);
    if (document.is_null()) {
        return {};
    }
    return Node(document, "", file).list("a list", read);
}

template <typename Record>
std::string joinRecords(const std::vector<Record>& records) {
    std::string text = "[";
    for (const auto& record : records) {
        text += cat(text.size() > 1 ? "," : "", record.json);
    }
    return text + "]";
}

/// Whether the last part of a name has a tag or a digest.
bool hasTag(std::string_view name) {
    const auto slash = name.rfind('/');
    return name.find_first_of(":@", slash == std::string_view::npos ? 0 : slash) != std::string_view::npos;
}

}  // namespace

std::vector<PodmanImage> parseImages(std::string_view text, const std::string& file) {
    return parseList<PodmanImage>(text, file, [](const Node& node) {
        node.object();
        PodmanImage image{.id = layerId(node, "id", false),
                          .layer = layerId(node, "layer", true),
                          .digest = optionalString(node, "digest"),
                          .names = {},
                          .json = node.value().dump()};
        if (const auto names = node.value().find("names"); names != node.value().end() && !names->is_null()) {
            image.names = node.member("names", *names).list("a list of names", [](const Node& name) {
                return name.string();
            });
        }
        return image;
    });
}

std::vector<PodmanLayer> parseLayers(std::string_view text, const std::string& file) {
    return parseList<PodmanLayer>(text, file, [](const Node& node) {
        node.object();
        PodmanLayer layer{.id = layerId(node, "id", false),
                          .parent = layerId(node, "parent", true),
                          .diffId = optionalString(node, "diff-digest"),
                          .json = node.value().dump()};
        if (const auto size = node.value().find("diff-size");
            size != node.value().end() && size->is_number_unsigned()) {
            layer.size = size->get<std::uint64_t>();
        }
        return layer;
    });
}

std::string serialize(const std::vector<PodmanImage>& images) {
    return joinRecords(images);
}

std::string serialize(const std::vector<PodmanLayer>& layers) {
    return joinRecords(layers);
}

PodmanImage withNames(const PodmanImage& image, const std::vector<std::string>& names) {
    auto changed = image;
    auto json = Json::parse(image.json);
    json["names"] = names;
    if (names.empty()) {
        json.erase("names");
    }
    changed.names = names;
    changed.json = json.dump();
    return changed;
}

PodmanImage portable(const PodmanImage& image) {
    auto changed = image;
    auto json = Json::parse(image.json);
    json.erase("mapped-layers");
    changed.json = json.dump();
    return changed;
}

std::vector<std::string> possibleNames(std::string_view word) {
    constexpr std::string_view transport = "docker://";
    if (word.starts_with(transport)) {
        word.remove_prefix(transport.size());
    }
    const auto name = cat(word, hasTag(word) ? "" : ":latest");
    constexpr std::string_view hub = "docker.io/";
    std::vector<std::string> names{name, cat(hub, name), cat("docker.io/library/", name),
                                   cat("localhost/", name)};
    if (name.starts_with(hub)) {
        names.push_back(cat("docker.io/library/", name.substr(hub.size())));
    }
    return names;
}

const PodmanImage* findImageById(const std::vector<PodmanImage>& images, std::string_view id) {
    const auto found =
        std::find_if(images.begin(), images.end(), [&](const PodmanImage& image) { return image.id == id; });
    return found == images.end() ? nullptr : &*found;
}

const PodmanLayer* findLayer(const std::vector<PodmanLayer>& layers, std::string_view id) {
    const auto found =
        std::find_if(layers.begin(), layers.end(), [&](const PodmanLayer& layer) { return layer.id == id; });
    return found == layers.end() ? nullptr : &*found;
}

const PodmanImage* findImage(const std::vector<PodmanImage>& images, std::string_view word) {
    for (const auto& name : possibleNames(word)) {
        const auto at = name.find('@');
        const auto matches = [&](const PodmanImage& image) {
            if (at == std::string::npos) {
                return std::find(image.names.begin(), image.names.end(), name) != image.names.end();
            }
            const auto repository = name.substr(0, at);
            return image.digest == name.substr(at + 1) &&
                   std::any_of(image.names.begin(), image.names.end(), [&](const std::string& known) {
                       return known.starts_with(repository) &&
                              (known.size() == repository.size() || known[repository.size()] == ':' ||
                               known[repository.size()] == '@');
                   });
        };
        if (const auto found = std::find_if(images.begin(), images.end(), matches); found != images.end()) {
            return &*found;
        }
    }
    constexpr std::string_view algorithm = "sha256:";
    if (word.starts_with(algorithm)) {
        word.remove_prefix(algorithm.size());
    }
    if (word.empty() || !isHex(word)) {
        return nullptr;
    }
    const PodmanImage* found = nullptr;
    for (const auto& image : images) {
        if (image.id.starts_with(word)) {
            if (found != nullptr) {
                throw Error(cat("The ids of several images begin with ", word), "Give more digits of the id");
            }
            found = &image;
        }
    }
    return found;
}

LayerChain chainOf(const std::vector<PodmanLayer>& layers, const std::string& top) {
    LayerChain chain;
    std::set<std::string> seen;
    std::string id = top;
    while (!id.empty() && seen.insert(id).second) {
        const auto* layer = findLayer(layers, id);
        if (layer == nullptr) {
            break;
        }
        chain.layers.push_back(*layer);
        id = layer->parent;
    }
    chain.complete = id.empty();
    std::reverse(chain.layers.begin(), chain.layers.end());
    return chain;
}

}  // namespace sarus::podman_hpc
