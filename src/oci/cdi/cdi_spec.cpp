#include "oci/cdi/cdi_spec.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/cdi/yaml.hpp"
#include "oci/json/json_members.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;
using Node = JsonNode<Json>;

/// In ascending order.
constexpr std::array<std::string_view, 10> versions{"0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0",
                                                    "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"};

std::size_t rank(std::string_view version) {
    return static_cast<std::size_t>(std::find(versions.begin(), versions.end(), version) - versions.begin());
}

bool isLetter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool isAlphanumeric(char c) {
    return isLetter(c) || (c >= '0' && c <= '9');
}

bool isName(std::string_view text, std::string_view inside) {
    return !text.empty() && isAlphanumeric(text.front()) && isAlphanumeric(text.back()) &&
           std::all_of(text.begin(), text.end(),
                       [&](char c) { return isAlphanumeric(c) || inside.find(c) != inside.npos; });
}

bool isVendorOrClass(std::string_view text) {
    return isName(text, "_-.") && isLetter(text.front());
}

bool isDeviceName(std::string_view text) {
    return isName(text, "_-.:");
}

bool isKind(std::string_view text) {
    const auto slash = text.find('/');
    return slash != text.npos && isVendorOrClass(text.substr(0, slash)) &&
           isVendorOrClass(text.substr(slash + 1));
}

std::size_t readVersion(const Node& node) {
    const auto expected = cat("a version of CDI from ", versions.front(), " to ", versions.back());
    auto text = node.string(expected);
    if (text.starts_with('v')) {
        text.erase(0, 1);
    }
    const auto found = rank(text);
    if (found == versions.size()) {
        node.fail(expected);
    }
    return found;
}

std::string readDeviceName(const Node& node) {
    constexpr std::string_view expected = "a device name (letters, digits and _ - . : inside)";
    auto name = node.string(expected);
    if (!isDeviceName(name)) {
        node.fail(expected);
    }
    return name;
}

/// The members that are not texts; all others of a file are, or contain such.
constexpr std::array<std::string_view, 8> notTexts{"major", "minor",   "fileMode",       "uid",
                                                   "gid",   "timeout", "additionalGids", "enableMonitoring"};

std::string textOf(const Json& value) {
    if (!value.is_number_float()) {
        return value.dump();
    }
    std::array<char, 64> text{};
    const auto end = std::to_chars(text.begin(), text.end(), value.get<float>()).ptr;
    return {text.data(), end};
}

/// As the reference implementation reads YAML: unquoted numbers and booleans are texts where texts belong,
/// and a member without a value counts as missing. `isAnnotation`: of a mapping with free names.
void adapt(Json& value, std::string_view key, bool isAnnotation) {
    if (value.is_object()) {
        for (auto member = value.begin(); member != value.end();) {
            if (member->is_null()) {
                member = value.erase(member);
            } else {
                adapt(*member, member.key(), key == "annotations");
                ++member;
            }
        }
    } else if (value.is_array()) {
        for (auto& element : value) {
            adapt(element, key, false);
        }
    } else if ((value.is_number() || value.is_boolean()) &&
               (isAnnotation || std::find(notTexts.begin(), notTexts.end(), key) == notTexts.end())) {
        value = textOf(value);
    }
}

struct Reader {
    CdiSpec spec;
    std::size_t version = versions.size();
    std::size_t needed = 0;
    std::string_view neededFor;

    void need(std::string_view atLeast, std::string_view what) {
        if (rank(atLeast) > needed) {
            needed = rank(atLeast);
            neededFor = what;
        }
    }

    void readAnnotations(const Node& node) {
        for (const auto& [key, content] : node.object("an object of strings").items()) {
            node.member(key, content).string();
        }
        need("0.6.0", "annotations");
    }

    ContainerEdits readEdits(const Node& node) {
        auto edits = readContainerEdits(node, EditsDialect::cdi);
        need(minimumCdiVersion(edits), "container edits");
        return edits;
    }

    CdiDevice readDevice(const Node& node) {
        CdiDevice device;
        bool hasEdits = false;
        readMembers(node, "an object that describes a device", "key",
                    {{"name", [&](const Node& value) { device.name = readDeviceName(value); }},
                     {"containerEdits",
                      [&](const Node& value) {
                          device.edits = readEdits(value);
                          hasEdits = true;
                      }},
                     {"annotations", [&](const Node& value) { readAnnotations(value); }}});
        if (!device.name.empty() && !isLetter(device.name.front())) {
            need("0.5.0", "device names that begin with a digit");
        }
        if (device.name.empty() || !hasEdits) {
            node.reject(
                cat("the required key '", device.name.empty() ? "name" : "containerEdits", "' is missing"));
        }
        if (device.edits.empty()) {
            node.reject(cat("the device '", device.name, "' has no container edits"));
        }
        return device;
    }

    void readDevices(const Node& node) {
        spec.devices =
            node.list("a list of devices", [this](const Node& element) { return readDevice(element); });
        if (spec.devices.empty()) {
            node.failEmpty("device");
        }
        std::vector<std::string_view> names;
        for (const auto& device : spec.devices) {
            names.push_back(device.name);
        }
        std::sort(names.begin(), names.end());
        if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
            node.reject(cat("the device '", *twice, "' is there twice"));
        }
    }

    void readKind(const Node& node) {
        constexpr std::string_view expected = "a kind \"vendor.com/class\"";
        spec.kind = node.string(expected);
        if (!isKind(spec.kind)) {
            node.fail(expected);
        }
        if (spec.kind.find('.', spec.kind.find('/')) != std::string::npos) {
            need("0.6.0", "a '.' in the class");
        }
    }

    void read(const Node& root) {
        readMembers(root, "an object", "key",
                    {{"cdiVersion", [&](const Node& value) { version = readVersion(value); }},
                     {"kind", [&](const Node& value) { readKind(value); }},
                     {"annotations", [&](const Node& value) { readAnnotations(value); }},
                     {"devices", [&](const Node& value) { readDevices(value); }},
                     {"containerEdits", [&](const Node& value) { spec.edits = readEdits(value); }}});
    }
};

}  // namespace

std::optional<CdiName> parseCdiName(std::string_view text) {
    const auto equals = text.find('=');
    if (equals == text.npos || !isKind(text.substr(0, equals)) || !isDeviceName(text.substr(equals + 1))) {
        return std::nullopt;
    }
    return CdiName{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

CdiSpec parseCdiSpec(std::string_view text, std::string_view file) {
    const bool isYaml = file.ends_with(".yaml");
    const auto name = printable(file);
    auto document = isYaml ? parseYaml(text, name) : parseJson<Json>(text, file);
    if (isYaml) {
        adapt(document, "", false);
    }
    const Node root(document, "", file);
    Reader reader;
    reader.spec.file = file;
    reader.read(root);
    for (const auto* required : {"cdiVersion", "kind", "devices"}) {
        if (!document.contains(required)) {
            root.reject(cat("the required key '", required, "' is missing"));
        }
    }
    if (reader.version < reader.needed) {
        root.reject(cat("cdiVersion is ", versions.at(reader.version), ", but the file uses ",
                        reader.neededFor, ", which requires ", versions.at(reader.needed)));
    }
    return std::move(reader.spec);
}

}  // namespace sarus::oci
