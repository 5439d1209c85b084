#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace sarus::podman_hpc {

struct YamlMember;

/// A value of a YAML document (YAML 1.1) and the line where it begins. Aliases are resolved.
struct YamlValue {
    enum class Kind { null, scalar, list, map };
    Kind kind = Kind::null;
    std::string text{};   ///< of a scalar
    bool quoted = false;  ///< a quoted scalar is text, whatever it looks like
    std::vector<YamlValue> items{};
    std::vector<YamlMember> members;
    int line = 1;

    /// nullptr if the map has no such key.
    const YamlValue* find(std::string_view key) const;
    bool isBoolean() const;
    bool isNumber() const;
    /// "text", "a number", "a list", ... for messages.
    std::string_view describe() const;
};

struct YamlMember {
    std::string key;
    YamlValue value;
};

/// Parses one document; an empty one is null. Throws Error "FILE:LINE: reason".
YamlValue parseYaml(const std::string& text, const std::string& file);

/// Reads the values of one file and names file, line and key of those that have another type.
class YamlReader {
public:
    explicit YamlReader(std::string path) : file(std::move(path)) {}

    Error error(const YamlValue& value, std::string_view message) const;
    /// Throws unless the value is a map or null.
    void requireMap(const YamlValue& document) const;
    std::string text(std::string_view key, const YamlValue& value) const;
    bool boolean(std::string_view key, const YamlValue& value) const;
    /// Null is an empty list. Numbers are text in lists.
    std::vector<std::string> list(std::string_view key, const YamlValue& value) const;

    const std::string file;
};

}  // namespace sarus::podman_hpc
