#include "image/build/read/image_json.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json/json_depth.hpp"

namespace sarus::image::build {

Json parseJson(const std::string& text, const std::string& what) {
    oci::checkJsonDepth(text, what);
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) {
        throw Error(cat(what, " is not valid JSON"),
                    "The image is damaged: pull it, or make the archive, again");
    }
    return json;
}

Json parseJsonObject(const std::string& text, const std::string& what) {
    oci::checkJsonDepth(text, what);
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) {
        throw Error(cat(what, " is not a JSON object"),
                    "The image is damaged: pull it, or make the archive, again");
    }
    return json;
}

std::string stringMember(const Json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const Json& member(const Json& object, const char* key, std::string_view what) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (found == object.end()) {
        throw Error(cat(what, " lacks \"", key, "\""));
    }
    return *found;
}

const Json& arrayMember(const Json& object, const char* key, std::string_view what) {
    const Json& array = member(object, key, what);
    if (!array.is_array()) {
        throw Error(cat("\"", key, "\" of ", what, " is not a list"));
    }
    return array;
}

std::vector<Digest> diffIds(const Json& config, std::size_t layers) {
    const Json& rootfs = member(config, "rootfs", "the image configuration");
    const Json& list = arrayMember(rootfs, "diff_ids", "the image configuration");
    if (layers != list.size()) {
        throw Error(cat("The image has ", layers, " layers, but its configuration names ", list.size()));
    }
    if (layers > mostLayers) {
        throw Error(cat("The image has ", layers, " layers; the limit is ", mostLayers));
    }
    std::vector<Digest> result;
    for (const auto& item : list) {
        result.emplace_back(item.is_string() ? item.get<std::string>() : std::string());
    }
    return result;
}

void checkPlatform(const Json& config, const std::optional<oci::Platform>& wanted) {
    const auto offered = platformOfConfig(config);
    const auto needed = wanted.value_or(oci::hostPlatform());
    const bool known = !offered.os.empty() && !offered.architecture.empty();
    const bool runsElsewhere = wanted && offered.architecture != needed.architecture;
    if (known && (offered.os != needed.os || runsElsewhere)) {
        throw Error(cat("The image is for the platform ", printable(oci::toString(offered)), ", not for ",
                        oci::toString(needed)));
    }
}

oci::Platform platformOfConfig(const Json& config) {
    return {stringMember(config, "os"), stringMember(config, "architecture"),
            stringMember(config, "variant")};
}

}  // namespace sarus::image::build
