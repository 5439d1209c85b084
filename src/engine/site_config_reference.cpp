#include "engine/site_config_reference.hpp"

#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace sarus::engine {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string defaultValue(const KeyDescription& key) {
    return key.presence == Presence::required || key.defaultValue == nullptr ? std::string()
                                                                             : key.defaultValue();
}

OrderedJson objectSchema(const std::vector<KeyDescription>& keys);

OrderedJson keySchema(const KeyDescription& key) {
    const auto value = key.value();
    OrderedJson schema{{"description", key.text}};
    if (value.members.empty()) {
        schema.update(OrderedJson::parse(value.schema));
    } else if (value.isList) {
        schema["type"] = "array";
        schema["items"] = objectSchema(value.members);
    } else {
        schema.update(objectSchema(value.members));
    }
    if (const auto json = defaultValue(key); !json.empty()) {
        schema["default"] = OrderedJson::parse(json);
    }
    return schema;
}

OrderedJson objectSchema(const std::vector<KeyDescription>& keys) {
    OrderedJson schema{{"type", "object"}, {"additionalProperties", false}};
    for (const auto& key : keys) {
        if (key.presence == Presence::required) {
            schema["required"].push_back(key.name);
        }
        schema["properties"][std::string(key.name)] = keySchema(key);
    }
    return schema;
}

std::string manualEntries(const std::vector<KeyDescription>& keys) {
    std::string out;
    for (const auto& key : keys) {
        const auto value = key.value();
        auto properties = cat(key.presence == Presence::required ? "required, " : "", value.words);
        if (const auto json = defaultValue(key); !json.empty()) {
            properties += cat(", default ", json);
        }
        out += cat(".TP\n.BR ", key.name, " \" (", roff(properties), ")\"\n", roff(key.text), '\n');
        out += key.presence == Presence::own ? "Sarus 1.7 did not know this key.\n" : "";
        out += value.members.empty() ? "" : cat(".RS\n", manualEntries(value.members), ".RE\n");
    }
    return out;
}

}  // namespace

std::string siteConfigSchema() {
    OrderedJson schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "Sarus configuration file (sarus.json)"}};
    schema.update(objectSchema(siteConfigKeys()));
    constexpr int indentation = 4;
    return schema.dump(indentation) + '\n';
}

std::string siteConfigManual() {
    return manualEntries(siteConfigKeys());
}

std::string roff(std::string_view text) {
    std::string out;
    bool bold = false;
    for (const char c : text) {
        if (c == '`') {
            bold = !bold;
            out += bold ? "\\fB" : "\\fR";
        } else {
            out += c == '-' ? "\\-" : c == '"' ? "\\(dq" : std::string(1, c);
        }
    }
    return out;
}

}  // namespace sarus::engine
