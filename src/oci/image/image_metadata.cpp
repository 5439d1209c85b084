#include "oci/image/image_metadata.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(std::string_view key, std::string_view expected, const Json& found) {
    throw Error(cat("Invalid image metadata: '", printable(key), "' must be ", expected, ", found ",
                    found.type_name()));
}

Json parseObject(std::string_view text, std::string_view what) {
    auto json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) {
        throw Error(cat("Invalid ", what, ": not valid JSON"));
    }
    if (!json.is_object()) {
        throw Error(cat("Invalid ", what, ": expected an object, found ", json.type_name()));
    }
    return json;
}

std::string readString(const Json& json, std::string_view key) {
    if (!json.is_string()) {
        fail(key, "a string", json);
    }
    auto text = json.get<std::string>();
    if (text.find('\0') != std::string::npos) {
        throw Error(cat("Invalid image metadata: '", printable(key), "' holds a NUL character"));
    }
    return text;
}

/// The member, or null if it is missing.
const Json& member(const Json& object, const char* key) {
    static const Json null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
}

std::vector<std::string> readStrings(const Json& object, const char* key) {
    const auto& json = member(object, key);
    if (json.is_null()) {
        return {};
    }
    if (json.is_string()) {  // old Docker versions wrote a single argument this way
        return {readString(json, key)};
    }
    if (!json.is_array()) {
        fail(key, "a list of strings", json);
    }
    std::vector<std::string> strings;
    strings.reserve(json.size());
    for (const auto& element : json) {
        strings.push_back(readString(element, key));
    }
    return strings;
}

std::map<std::string, std::string> readLabels(const Json& object) {
    const auto& json = member(object, "Labels");
    std::map<std::string, std::string> labels;
    if (json.is_null()) {
        return labels;
    }
    if (!json.is_object()) {
        fail("Labels", "an object with string values", json);
    }
    for (const auto& [name, text] : json.items()) {
        if (name.find('\0') != std::string::npos) {
            throw Error("Invalid image metadata: 'Labels' holds a NUL character");
        }
        labels.emplace(name, readString(text, cat("Labels.", name)));
    }
    return labels;
}

/// An object whose values mean nothing.
std::vector<std::string> readVolumes(const Json& object) {
    const auto& json = member(object, "Volumes");
    if (json.empty()) {
        return {};
    }
    if (!json.is_object()) {
        fail("Volumes", "an object", json);
    }
    std::vector<std::string> volumes;
    for (const auto& [path, value] : json.items()) {
        volumes.push_back(readString(path, "Volumes"));
    }
    return volumes;
}

ImageMetadata readFields(const Json& object) {
    ImageMetadata metadata;
    metadata.cmd = readStrings(object, "Cmd");
    metadata.entrypoint = readStrings(object, "Entrypoint");
    if (const auto& json = member(object, "WorkingDir"); !json.is_null()) {
        metadata.workingDir = readString(json, "WorkingDir");
    }
    metadata.env = readStrings(object, "Env");
    metadata.labels = readLabels(object);
    metadata.volumes = readVolumes(object);
    return metadata;
}

}  // namespace

ImageMetadata parseImageMetadata(std::string_view json) {
    return readFields(parseObject(json, "image metadata"));
}

std::string serializeImageMetadata(const ImageMetadata& metadata) {
    JsonWriter writer;
    writer.beginObject();
    writer.member("Cmd", metadata.cmd);
    writer.member("Entrypoint", metadata.entrypoint);
    writer.member("WorkingDir", metadata.workingDir);
    writer.member("Env", metadata.env);
    if (!metadata.labels.empty()) {
        writer.key("Labels").beginObject();
        for (const auto& [name, text] : metadata.labels) {
            writer.member(name, text);
        }
        writer.endObject();
    }
    if (!metadata.volumes.empty()) {
        writer.key("Volumes").beginObject();
        for (const auto& path : metadata.volumes) {
            writer.key(path).beginObject().endObject();
        }
        writer.endObject();
    }
    writer.endObject();
    return writer.text();
}

Platform platformOfConfig(std::string_view json) {
    const auto blob = parseObject(json, "image configuration");
    const auto text = [&](const char* key) {
        const auto& value = member(blob, key);
        return value.is_string() ? value.get<std::string>() : std::string();
    };
    return {text("os"), text("architecture"), text("variant")};
}

ImageMetadata parseImageConfig(std::string_view json) {
    const auto blob = parseObject(json, "image configuration");
    const auto& config = member(blob, "config");
    if (config.is_null()) {
        return {};
    }
    if (!config.is_object()) {
        fail("config", "an object", config);
    }
    return readFields(config);
}

}  // namespace sarus::oci
