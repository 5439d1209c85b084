#include "podman_hpc/store/records.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <utility>

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

std::vector<std::string> listOf(const Json& json, const char* key) {
    const auto found = json.find(key);
    return found == json.end() || found->is_null() ? std::vector<std::string>()
                                                   : found->get<std::vector<std::string>>();
}

enum class Type { string, time, number, strings, numbersByName, stringsByName };

void checkType(const Node& node, Type type) {
    const auto number = [](const Node& item) { item.number(INT64_MAX, "a number"); };
    const auto byName = [&](const auto& check) {
        for (const auto& [name, item] : node.object().items()) {
            check(node.member(name, item));
        }
    };
    switch (type) {
        case Type::string:
            node.string();
            break;
        case Type::time:
            if (const auto text = node.string("a time");
                text.size() < 20 || text[4] != '-' || text[10] != 'T') {
                node.fail("a time");
            }
            break;
        case Type::number:
            number(node);
            break;
        case Type::strings:
            node.strings();
            break;
        case Type::numbersByName:
            byName(number);
            break;
        case Type::stringsByName:
            byName([](const Node& item) { item.string(); });
            break;
    }
}

/// containers/storage reads nothing of a list if one value is of another type.
void checkTypes(const Node& node, std::initializer_list<std::pair<const char*, Type>> types) {
    node.object();
    for (const auto& [key, type] : types) {
        if (const auto found = node.value().find(key); found != node.value().end() && !found->is_null()) {
            checkType(node.member(key, *found), type);
        }
    }
}

/// Splits the text of a list into its elements. Returns what is wrong with the list as a whole, or "".
std::string splitList(std::string_view text, std::vector<std::string_view>& elements) {
    text = trim(text);
    if (text.empty() || text == "null") {
        return text.empty() ? "is empty" : "";
    }
    if (text.front() != '[') {
        return "is not a list";
    }
    std::size_t depth = 0;
    std::size_t begin = 1;
    bool inString = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (inString) {
            inString = c != '"';
            i += c == '\\' ? 1 : 0;
            continue;
        }
        inString = c == '"';
        depth += c == '[' || c == '{' ? 1 : 0;
        depth -= c == ']' || c == '}' ? 1 : 0;
        if (depth == 0 || (depth == 1 && c == ',')) {
            const auto element = trim(text.substr(begin, i - begin));
            if (depth != 0 || !element.empty() || !elements.empty()) {
                elements.push_back(element);
            }
            begin = i + 1;
        }
        if (depth == 0) {
            return begin == text.size() ? "" : "has more behind the end of the list";
        }
    }
    if (const auto last = trim(text.substr(std::min(begin, text.size())));
        depth == 1 && !inString && !last.empty()) {
        elements.push_back(last);
    }
    return cat("was cut off behind ", elements.size(), elements.size() == 1 ? " record" : " records");
}

template <typename Record, typename Read>
std::vector<Record> parseList(std::string_view text, const std::string& file,
                              std::vector<std::string>& problems, Read read) {
    std::vector<std::string_view> elements;
    if (const auto problem = splitList(text, elements); !problem.empty()) {
        problems.push_back(cat(printable(file), ' ', problem));
    }
    std::vector<Record> records;
    std::set<std::string> ids;
    for (std::size_t i = 0; i < elements.size(); ++i) {
        const auto place = cat('[', i, ']');
        try {
            const auto document = oci::parseJson<Json>(elements[i], cat(file, ": ", place));
            const Node node(document, place, file);
            auto record = read(node);
            if (!ids.insert(record.id).second) {
                node.reject(cat("the id ", record.id, " is there twice"));
            }
            records.push_back(std::move(record));
        } catch (const Error& error) {
            problems.push_back(error.what());
        }
    }
    return records;
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

std::vector<PodmanImage> parseImages(std::string_view text, const std::string& file,
                                     std::vector<std::string>& problems) {
    return parseList<PodmanImage>(text, file, problems, [](const Node& node) {
        checkTypes(node, {{"names", Type::strings},
                          {"names-history", Type::strings},
                          {"mapped-layers", Type::strings},
                          {"metadata", Type::string},
                          {"created", Type::time},
                          {"big-data-names", Type::strings},
                          {"big-data-sizes", Type::numbersByName},
                          {"big-data-digests", Type::stringsByName}});
        const auto& json = node.value();
        PodmanImage image{.id = layerId(node, "id", false),
                          .layer = layerId(node, "layer", true),
                          .digest = optionalString(node, "digest"),
                          .names = listOf(json, "names"),
                          .json = json.dump()};
        for (const auto& name : listOf(json, "big-data-names")) {
            auto& size = image.documents[name];
            if (const auto sizes = json.find("big-data-sizes");
                sizes != json.end() && sizes->is_object() && sizes->contains(name)) {
                size = (*sizes)[name].template get<std::uint64_t>();
            }
        }
        return image;
    });
}

std::vector<PodmanLayer> parseLayers(std::string_view text, const std::string& file,
                                     std::vector<std::string>& problems) {
    return parseList<PodmanLayer>(text, file, problems, [](const Node& node) {
        checkTypes(node, {{"names", Type::strings},
                          {"metadata", Type::string},
                          {"mountlabel", Type::string},
                          {"created", Type::time},
                          {"compressed-diff-digest", Type::string},
                          {"compressed-size", Type::number},
                          {"diff-size", Type::number},
                          {"big-data-names", Type::strings}});
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
