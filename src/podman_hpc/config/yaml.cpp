#include "podman_hpc/config/yaml.hpp"

#include <yaml.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/boolean.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr int maxLevels = 50;
constexpr std::size_t maxNodes = 100'000;  // aliases can multiply the values of a small file

std::string lowerCase(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

bool isOneOf(const std::string& text, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), text) != words.end();
}

struct Parser {
    yaml_parser_t state{};
    Parser() {
        if (yaml_parser_initialize(&state) == 0) {
            throw Error("Failed to start the YAML parser");
        }
    }
    Parser(const Parser&) = delete;
    Parser& operator=(const Parser&) = delete;
    ~Parser() { yaml_parser_delete(&state); }
};

struct Document {
    yaml_document_t state{};
    bool loaded = false;
    Document() = default;
    Document(const Document&) = delete;
    Document& operator=(const Document&) = delete;
    ~Document() {
        if (loaded) {
            yaml_document_delete(&state);
        }
    }
};

/// Copies a document into values.
class Converter {
public:
    Converter(yaml_document_t& from, std::string_view name) : document(from), file(name) {}

    YamlValue convert(const yaml_node_t& node, int level = 0) {
        YamlValue value;
        value.line = static_cast<int>(node.start_mark.line) + 1;
        if (level > maxLevels || ++nodes > maxNodes) {
            fail(value.line, "the document is nested too deeply");
        }
        switch (node.type) {
            case YAML_SCALAR_NODE:
                readScalar(node, value);
                break;
            case YAML_SEQUENCE_NODE:
                value.kind = YamlValue::Kind::list;
                for (auto* item = node.data.sequence.items.start; item != node.data.sequence.items.top;
                     ++item) {
                    value.items.push_back(convert(*yaml_document_get_node(&document, *item), level + 1));
                }
                break;
            case YAML_MAPPING_NODE:
                value.kind = YamlValue::Kind::map;
                for (auto* pair = node.data.mapping.pairs.start; pair != node.data.mapping.pairs.top;
                     ++pair) {
                    addMember(value, *pair, level);
                }
                break;
            case YAML_NO_NODE:
                break;
        }
        return value;
    }

    [[noreturn]] void fail(int line, std::string_view reason) const {
        throw Error(cat(printable(file), ':', line, ": ", reason));
    }

private:
    static void readScalar(const yaml_node_t& node, YamlValue& value) {
        value.text.assign(reinterpret_cast<const char*>(node.data.scalar.value), node.data.scalar.length);
        value.quoted = node.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        const bool isNull = !value.quoted && isOneOf(lowerCase(value.text), {"", "~", "null"});
        value.kind = isNull ? YamlValue::Kind::null : YamlValue::Kind::scalar;
    }

    void addMember(YamlValue& map, const yaml_node_pair_t& pair, int level) {
        const auto key = convert(*yaml_document_get_node(&document, pair.key), level + 1);
        if (key.kind != YamlValue::Kind::scalar) {
            fail(key.line, "a key must be text");
        }
        if (map.find(key.text) != nullptr) {
            fail(key.line, cat("the key '", printable(key.text), "' is there twice"));
        }
        auto value = convert(*yaml_document_get_node(&document, pair.value), level + 1);
        value.line = key.line;  // messages are about the key
        map.members.push_back({key.text, std::move(value)});
    }

    yaml_document_t& document;
    std::string_view file;
    std::size_t nodes = 0;
};

}  // namespace

const YamlValue* YamlValue::find(std::string_view key) const {
    const auto found =
        std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.key == key; });
    return found == members.end() ? nullptr : &found->value;
}

bool YamlValue::isBoolean() const {
    return kind == Kind::scalar && !quoted &&
           isOneOf(lowerCase(text), {"true", "false", "yes", "no", "on", "off"});
}

bool YamlValue::isNumber() const {
    if (kind != Kind::scalar || quoted || text.empty() || std::isspace(static_cast<unsigned char>(text[0]))) {
        return false;
    }
    char* end = nullptr;
    std::strtod(text.c_str(), &end);
    return *end == '\0';
}

std::string_view YamlValue::describe() const {
    switch (kind) {
        case Kind::null:
            return "nothing";
        case Kind::list:
            return "a list";
        case Kind::map:
            return "a map";
        case Kind::scalar:
            break;
    }
    return isBoolean() ? "true or false" : isNumber() ? "a number" : "text";
}

YamlValue parseYaml(const std::string& text, const std::string& file) {
    Parser parser;
    yaml_parser_set_input_string(&parser.state, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
    Document document;
    document.loaded = yaml_parser_load(&parser.state, &document.state) != 0;
    Converter converter(document.state, file);
    if (!document.loaded) {
        const auto* problem = parser.state.problem;
        converter.fail(static_cast<int>(parser.state.problem_mark.line) + 1,
                       cat("not valid YAML: ", problem == nullptr ? "unreadable" : problem));
    }
    const auto* root = yaml_document_get_root_node(&document.state);
    return root == nullptr ? YamlValue{} : converter.convert(*root);
}

Error YamlReader::error(const YamlValue& value, std::string_view message) const {
    return Error(cat(printable(file), ':', value.line, ": ", message));
}

void YamlReader::requireMap(const YamlValue& document) const {
    if (document.kind != YamlValue::Kind::map && document.kind != YamlValue::Kind::null) {
        throw error(document, cat("expected keys with values, found ", document.describe()));
    }
}

std::string YamlReader::text(std::string_view key, const YamlValue& value) const {
    if (value.kind != YamlValue::Kind::scalar || value.isBoolean() || value.isNumber()) {
        throw error(value, cat(key, " must be text, found ", value.describe()));
    }
    return value.text;
}

bool YamlReader::boolean(std::string_view key, const YamlValue& value) const {
    const auto parsed = value.kind == YamlValue::Kind::scalar ? parseBoolean(trim(value.text)) : std::nullopt;
    if (!parsed) {
        throw error(value, cat(key, " must be true or false, found ", value.describe()));
    }
    return *parsed;
}

std::vector<std::string> YamlReader::list(std::string_view key, const YamlValue& value) const {
    if (value.kind != YamlValue::Kind::list && value.kind != YamlValue::Kind::null) {
        throw error(value, cat(key, " must be a list, found ", value.describe()));
    }
    std::vector<std::string> out;
    for (const auto& item : value.items) {
        if (item.kind != YamlValue::Kind::scalar) {
            throw error(item, cat(key, " must be a list of text, found ", item.describe(), " in it"));
        }
        out.push_back(item.text);
    }
    return out;
}

}  // namespace sarus::podman_hpc
