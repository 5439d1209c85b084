// What the YAML parser accepts, libyaml accepts as well, and both find the same values.

#include <yaml.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "oci/cdi/yaml.hpp"
#include "oci/cdi/yaml_value.hpp"

namespace {

using Json = nlohmann::ordered_json;

/// What libyaml makes of a text that our parser has accepted.
class Libyaml {
public:
    explicit Libyaml(std::string_view text) {
        if (yaml_parser_initialize(&parser) == 0) {
            std::abort();
        }
        yaml_parser_set_input_string(&parser, reinterpret_cast<const unsigned char*>(text.data()),
                                     text.size());
    }
    Libyaml(const Libyaml&) = delete;
    Libyaml& operator=(const Libyaml&) = delete;
    ~Libyaml() {
        yaml_event_delete(&event);
        yaml_parser_delete(&parser);
    }

    std::optional<Json> document() {
        while (next()) {
            if (event.type == YAML_DOCUMENT_START_EVENT && next()) {
                return value();
            }
        }
        return std::nullopt;
    }

private:
    bool next() {
        yaml_event_delete(&event);
        return yaml_parser_parse(&parser, &event) != 0 && event.type != YAML_STREAM_END_EVENT;
    }

    static std::string textOf(const yaml_char_t* text) {
        return text == nullptr ? std::string() : reinterpret_cast<const char*>(text);
    }

    std::optional<Json> note(const std::string& anchor, std::optional<Json> value) {
        if (!anchor.empty() && value) {
            anchors[anchor] = *value;
        }
        return value;
    }

    /// Of the event; the events of a list or mapping are behind it afterwards.
    std::optional<Json> value() {
        switch (event.type) {
            case YAML_ALIAS_EVENT: {
                const auto found = anchors.find(textOf(event.data.alias.anchor));
                return found == anchors.end() ? std::nullopt : std::optional(found->second);
            }
            case YAML_SCALAR_EVENT: {
                const auto& scalar = event.data.scalar;
                const std::string text(reinterpret_cast<const char*>(scalar.value), scalar.length);
                const auto tag = textOf(scalar.tag);
                const auto ownTag = tag.empty() || tag == "!" ? tag : "!<" + tag + ">";
                isPlainKey = scalar.style == YAML_PLAIN_SCALAR_STYLE && tag.empty() && text == "<<";
                return note(textOf(scalar.anchor),
                            sarus::oci::yamlValue(text, scalar.style == YAML_PLAIN_SCALAR_STYLE, ownTag));
            }
            case YAML_SEQUENCE_START_EVENT: {
                const auto anchor = textOf(event.data.sequence_start.anchor);
                auto list = Json::array();
                while (next() && event.type != YAML_SEQUENCE_END_EVENT) {
                    list.push_back(value().value_or("refused"));
                }
                return event.type == YAML_SEQUENCE_END_EVENT ? note(anchor, std::make_optional(list))
                                                             : std::nullopt;
            }
            case YAML_MAPPING_START_EVENT: {
                const auto anchor = textOf(event.data.mapping_start.anchor);
                auto mapping = Json::object();
                while (next() && event.type != YAML_MAPPING_END_EVENT) {
                    const auto key = value().value_or("refused");
                    const bool isMerge = isPlainKey;
                    const auto content = next() ? value().value_or("refused") : "refused";
                    if (isMerge) {
                        merge(mapping, content);
                    } else {
                        mapping[key.is_string() ? key.get<std::string>() : key.dump()] = content;
                    }
                }
                return event.type == YAML_MAPPING_END_EVENT ? note(anchor, std::make_optional(mapping))
                                                            : std::nullopt;
            }
            default:
                return std::nullopt;
        }
    }

    static void merge(Json& mapping, const Json& value) {
        for (const auto& from : value.is_array() ? value : Json::array({value})) {
            for (const auto& [name, content] : from.items()) {
                if (!mapping.contains(name)) {
                    mapping[name] = content;
                }
            }
        }
    }

    yaml_parser_t parser{};
    yaml_event_t event{};
    std::map<std::string, Json> anchors;
    bool isPlainKey = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    Json own;
    try {
        own = sarus::oci::parseYaml(text, "x.yaml");
    } catch (const sarus::Error&) {
        return 0;
    }
    if (const auto other = Libyaml(text).document(); !other || *other != own) {
        std::fprintf(stderr, "libyaml: %s\nown:     %s\n", other ? other->dump().c_str() : "refused",
                     own.dump().c_str());
        std::abort();
    }
    return 0;
}
