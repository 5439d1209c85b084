#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "engine/site_config_reference.hpp"
#include "oci/json/json_node.hpp"
#include "oci/runtime/device_request.hpp"

// The kinds of values in sarus.json, only for the table in site_config.cpp. Each kind describes itself and
// reads a value.

namespace sarus::engine::site_config {

using Json = nlohmann::json;
using Node = oci::JsonNode<Json>;

/// A row of a table of keys: how to store the value in a `Target`.
template <typename Target>
struct Key : KeyDescription {
    void (*read)(const Node&, Target&) = nullptr;
};

using enum Presence;

/// A key whose value may go to any member of `Target`.
template <typename Target, typename Kind>
constexpr Key<Target> keyOf(std::string_view name, Presence presence, std::string_view text) {
    return {{name, Kind::describe, presence, nullptr, text}, &Kind::template read<Target>};
}

/// The value as JSON; empty if there is none or its type has no JSON form.
template <typename Kind, typename Value>
std::string write(const Value& value) {
    if constexpr (requires { Kind::write(value); }) {
        return Kind::write(value);
    } else if constexpr (std::is_constructible_v<Json, Value>) {
        const Json json(value);
        return json.empty() ? std::string() : json.dump();
    }
    return {};
}

template <typename Target, typename Value>
Target classOf(Value Target::*member);

/// A key whose value goes to one member. The default is that of a new `Target`.
template <typename Kind, auto member>
constexpr auto key(std::string_view name, Presence presence, std::string_view text) {
    using Target = decltype(classOf(member));
    const auto read = [](const Node& node, Target& target) { Kind::read(node, target.*member); };
    const auto absent = [] { return write<Kind>(Target{}.*member); };
    return Key<Target>{{name, Kind::describe, presence, absent, text}, read};
}

inline std::string definition(std::string_view name) {
    return cat(R"({"$ref": "definitions.schema.json#/definitions/)", name, "\"}");
}

struct Boolean {
    static ValueDescription describe() { return {"boolean", R"({"type": "boolean"})"}; }
    template <typename Target>
    static void read(const Node& node, Target& flag) {
        flag = node.boolean();
    }
};

struct StringRule {
    std::string_view words;
    std::string_view definition;  ///< in definitions.schema.json
    std::string_view expected;    ///< for error messages
    bool (*accepts)(std::string_view text);
};

template <const StringRule& rule>
struct String {
    static ValueDescription describe() { return {std::string(rule.words), definition(rule.definition)}; }
    template <typename Target>
    static void read(const Node& node, Target& target) {
        auto text = node.string(rule.expected);
        if (!rule.accepts(text)) {
            node.fail(rule.expected);
        }
        target = std::move(text);
    }
};

inline bool isControlCharacter(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}
inline bool isFileName(std::string_view text) {
    const auto isForbidden = [](char c) { return c == '/' || isControlCharacter(c); };
    return !text.empty() && text != "." && text != ".." &&
           std::none_of(text.begin(), text.end(), isForbidden);
}
inline bool isVariableName(std::string_view text) {
    return !text.empty() && text.find('=') == std::string_view::npos &&
           text.find('\0') == std::string_view::npos;
}

/// An absolute path or one that begins with a variable; variables as $NAME and ${NAME}.
inline bool isPathWithVariables(std::string_view text) {
    constexpr std::string_view digits = "0123456789";
    constexpr std::string_view nameCharacters =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    if (!(text.starts_with('/') || text.starts_with('$')) ||
        std::any_of(text.begin(), text.end(), isControlCharacter)) {
        return false;
    }
    for (auto at = text.find('$'); at != std::string_view::npos; at = text.find('$', at)) {
        ++at;
        const bool braced = at < text.size() && text[at] == '{';
        at += braced ? 1 : 0;
        const auto end = std::min(text.find_first_not_of(nameCharacters, at), text.size());
        if (end == at || digits.find(text[at]) != std::string_view::npos ||
            (braced && (end == text.size() || text[end] != '}'))) {
            return false;
        }
        at = end;
    }
    return true;
}

constexpr StringRule textRule{"string", "text", "a string", [](std::string_view) { return true; }};
constexpr StringRule nonEmptyTextRule{"string", "nonEmptyText", "a non-empty string",
                                      [](auto text) { return !text.empty(); }};
constexpr StringRule pathRule{"path", "absolutePath", "an absolute path",
                              [](auto text) { return text.starts_with('/'); }};
constexpr StringRule pathWithVariablesRule{"path with variables", "pathWithVariables",
                                           "an absolute path, with variables as $NAME or ${NAME}",
                                           isPathWithVariables};
constexpr StringRule fileNameRule{"name", "fileName", "a plain file name (no '/')", isFileName};
constexpr StringRule variableNameRule{"name", "variableName", "the name of an environment variable",
                                      isVariableName};
constexpr StringRule deviceAccessRule{"of the letters r, w and m", "deviceAccess",
                                      "a combination of the characters 'rwm' without repetition",
                                      oci::isDeviceAccess};

using Text = String<textRule>;
using NonEmptyText = String<nonEmptyTextRule>;
using Path = String<pathRule>;
using PathWithVariables = String<pathWithVariablesRule>;
using FileName = String<fileNameRule>;
using DeviceAccess = String<deviceAccessRule>;

/// `expected`: the description of the list in error messages.
template <typename Kind, const auto& expected>
struct ListOf {
    static ValueDescription describe() {
        auto element = Kind::describe();
        return {cat("array of ", element.words, 's'),
                cat(R"({"type": "array", "items": )", element.schema, '}'), std::move(element.members), true};
    }
    template <typename Element>
    static void read(const Node& node, std::vector<Element>& list) {
        list = node.list(expected, [](const Node& entry) {
            Element element;
            Kind::read(entry, element);
            return element;
        });
    }
};

constexpr std::string_view listOfPaths = "a list of absolute paths";
constexpr std::string_view listOfVariableNames = "a list of names of environment variables";
using Paths = ListOf<Path, listOfPaths>;
using VariableNames = ListOf<String<variableNameRule>, listOfVariableNames>;

/// An integer from 1 to `largest`. As in JSON schemas, 1000.0 is an integer.
template <std::uint64_t largest>
struct PositiveInteger {
    static ValueDescription describe() {
        return {"integer", cat(R"({"type": "integer", "minimum": 1, "maximum": )", largest, '}')};
    }
    template <typename Integer>
    static void read(const Node& node, Integer& integer) {
        const double number = node.value().is_number() ? node.value().get<double>() : 0;
        if (number < 1 || number > static_cast<double>(largest) || std::floor(number) != number) {
            node.fail(cat("an integer between 1 and ", largest));
        }
        integer = static_cast<std::uint64_t>(number);
    }
};

using Milliseconds = PositiveInteger<2147483647>;
using Days = PositiveInteger<36500>;
/// Up to 2^53 - 1, which every JSON implementation represents exactly.
using Size = PositiveInteger<9007199254740991>;

struct Variables {
    static ValueDescription describe() { return {"object of strings", definition("variables")}; }
    static void read(const Node& node, std::map<std::string, std::string>& variables) {
        for (const auto& [name, content] : node.object("an object with string values").items()) {
            if (!isVariableName(name)) {
                node.reject(cat("'", printable(name), "' cannot be the name of an environment variable"));
            }
            node.attempt(
                [&, &key = name, &value = content] { variables[key] = node.member(key, value).string(); });
        }
    }
};

/// One of the words of a table {word, value}.
template <const auto& table>
struct OneOf {
    static ValueDescription describe() {
        return {listed('"', " or "), cat(R"({"enum": [)", listed('"', ", "), "]}")};
    }
    template <typename Value>
    static void read(const Node& node, Value& value) {
        for (const auto& [word, meaning] : table) {
            if (node.value().is_string() && node.value().get_ref<const std::string&>() == word) {
                value = meaning;
                return;
            }
        }
        node.fail(listed('\'', " or "));
    }
    template <typename Value>
    static std::string write(const Value& value) {
        const auto* const found = std::find_if(table.begin(), table.end(),
                                               [&](const auto& entry) { return entry.second == value; });
        return cat('"', found->first, '"');
    }

private:
    static std::string listed(char quote, std::string_view separator) {
        std::string list;
        for (const auto& [word, meaning] : table) {
            list += cat(list.empty() ? "" : separator, quote, word, quote);
        }
        return list;
    }
};

/// What an object does with a key that its table does not have. A key that looks like one that Sarus 1.7 did
/// not have is always refused: it cannot come from a file of 1.7, and ignoring a misspelt rule would be
/// unsafe.
enum class UnknownKeys {
    refused,
    ignored,               ///< as Sarus 1.7 did
    ignoredUnlessMisspelt  ///< refused if it looks like a key that is missing
};

/// Contains all required keys of a table.
template <const auto& keys, UnknownKeys unknownKeys = UnknownKeys::refused>
struct Object {
    static ValueDescription describe() { return {"object", {}, {keys.begin(), keys.end()}}; }
    template <typename Target>
    static void read(const Node& node, Target& target) {
        for (const auto& item : node.object().items()) {
            node.attempt([&] { readMember(node, item.key(), item.value(), target); });
        }
        for (const auto& key : keys) {
            if (key.presence == required && !node.value().contains(key.name)) {
                node.attempt([&] { node.reject(cat("the required key '", key.name, "' is missing")); });
            }
        }
    }
    template <typename Target>
    static void read(const Node& node, std::optional<Target>& target) {
        read(node, target.emplace());
    }

private:
    template <typename Target>
    static void readMember(const Node& node, const std::string& name, const Json& content, Target& target) {
        const auto* const key =
            std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return k.name == name; });
        if (key == keys.end()) {
            checkUnknown(node, name);
        } else {
            key->read(node.member(name, content), target);
        }
    }

    static void checkUnknown(const Node& node, const std::string& name) {
        std::vector<std::string> names;
        for (const auto& key : keys) {
            names.emplace_back(key.name);
        }
        const auto guess = closestMatch(name, names);
        const auto isOwn = [&](const auto& key) { return key.name == *guess && key.presence == own; };
        const bool isNew = guess && std::any_of(keys.begin(), keys.end(), isOwn);
        const bool isMisspelt = guess && !node.value().contains(*guess);
        if (unknownKeys == UnknownKeys::refused || isNew ||
            (unknownKeys == UnknownKeys::ignoredUnlessMisspelt && isMisspelt)) {
            node.rejectKey(name, cat("unknown key '", printable(name), "'"),
                           guess ? cat("Did you mean '", *guess, "'?") : std::string());
        }
    }
};

}  // namespace sarus::engine::site_config
