#include "image/store/index.hpp"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

using Json = nlohmann::ordered_json;

/// The member's text; "" if it is missing (older writers) and nullopt if it is not a string.
std::optional<std::string> textMember(const Json& object, const char* key) {
    const auto member = object.find(key);
    if (member == object.end() || member->is_null()) {
        return "";
    }
    return member->is_string() ? std::optional(member->get<std::string>()) : std::nullopt;
}

/// Converts "sha256-HEX", the last component of the key of an image without tag, to "sha256:HEX".
std::string digestOfKey(const std::string& uniqueKey) {
    auto digest = fileNameOf(uniqueKey);
    if (const auto dash = digest.find_last_of('-'); dash != std::string::npos) {
        digest[dash] = ':';
    }
    return digest;
}

std::optional<ImageRecord> parseRecord(const Json& json) {
    if (!json.is_object()) {
        return std::nullopt;
    }
    const auto key = textMember(json, "uniqueKey");
    const auto server = textMember(json, "server");
    const auto imageNamespace = textMember(json, "namespace");
    const auto image = textMember(json, "image");
    const auto tag = textMember(json, "tag");
    const auto registryDigest = textMember(json, "registryDigest");
    const auto id = textMember(json, "id");
    const auto size = textMember(json, "datasize");
    const auto created = textMember(json, "created");
    const auto platform = textMember(json, "platform");
    if (!key || !server || !imageNamespace || !image || !tag || !registryDigest || !id || !size || !created ||
        !platform) {
        return std::nullopt;
    }
    ImageRecord record{
        {*server, *imageNamespace, *image, *tag, ""}, *registryDigest, *id, *size, *created, *platform};
    if (tag->empty()) {
        record.reference.digest = registryDigest->empty() ? digestOfKey(*key) : *registryDigest;
    }
    // Do not trust the file: a reference that the parser does not reproduce could lead out of the repository.
    try {
        return parseReference(record.reference.full()) == record.reference ? std::optional(record)
                                                                           : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;  // reported through Index::damaged
    }
}

std::string dump(const Json& json) {
    return json.dump(3, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void update(ImageRecord& record, const StoreInfo& info) {
    record.registryDigest = info.registryDigest.empty() ? record.reference.digest : info.registryDigest;
    record.id = info.id;
    record.platform = info.platform;
}

Index parseIndex(std::string_view text) {
    Index index;
    const auto json = Json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("images") || !json["images"].is_array()) {
        index.damaged = true;
        return index;
    }
    for (const auto& entry : json["images"]) {
        if (auto record = parseRecord(entry)) {
            index.images.push_back(std::move(*record));
        } else {
            index.damaged = true;
        }
    }
    return index;
}

std::string serializeIndex(const std::vector<ImageRecord>& images, const std::string& imagesDirectory) {
    auto entries = Json::array();
    for (const auto& record : images) {
        const auto key = record.reference.uniqueKey();
        entries.push_back({{"uniqueKey", key},
                           {"server", record.reference.server},
                           {"namespace", record.reference.imageNamespace},
                           {"image", record.reference.image},
                           {"tag", record.reference.tag},
                           {"digest", ""},
                           {"registryDigest", record.registryDigest},
                           {"id", record.id},
                           {"imagePath", cat(imagesDirectory, '/', key, ".squashfs")},
                           {"metadataPath", cat(imagesDirectory, '/', key, ".meta")},
                           {"datasize", record.size},
                           {"created", record.created}});
        if (!record.platform.empty()) {
            entries.back()["platform"] = record.platform;
        }
    }
    Json index;
    index["images"] = std::move(entries);
    return dump(index);
}

std::string serializeStoredMetadata(const oci::ImageMetadata& metadata, const StoreInfo& info) {
    auto json = Json::parse(oci::serializeImageMetadata(metadata));
    json["Store"] = {{"registryDigest", info.registryDigest},
                     {"id", info.id},
                     {"squashfsDigest", info.squashfsDigest},
                     {"squashfsSize", info.squashfsSize}};
    if (!info.identity.empty()) {
        json["Store"]["squashfsIdentity"] = info.identity;
    }
    if (!info.layersId.empty()) {
        json["Store"]["layersId"] = info.layersId;
    }
    if (!info.platform.empty()) {
        json["Store"]["platform"] = info.platform;
    }
    if (info.build) {
        json["Store"]["build"] = {{"options", info.build->options},
                                  {"owner", info.build->owner},
                                  {"builder", info.build->builder},
                                  {"compressor", info.build->compressor}};
    }
    return dump(json);
}

namespace {

std::optional<BuildRecord> parseBuildRecord(const Json& store) {
    const auto member = store.find("build");
    if (member == store.end() || !member->is_object()) {
        return std::nullopt;
    }
    const auto options = textMember(*member, "options");
    const auto owner = textMember(*member, "owner");
    const auto builder = textMember(*member, "builder");
    const auto compressor = textMember(*member, "compressor");
    if (!options || !owner || !builder || !compressor) {
        return std::nullopt;
    }
    return BuildRecord{*options, *owner, *builder, *compressor};
}

}  // namespace

std::optional<StoreInfo> parseStoreInfo(std::string_view text) {
    const auto json = Json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("Store") || !json["Store"].is_object()) {
        return std::nullopt;
    }
    const auto& store = json["Store"];
    const auto registryDigest = textMember(store, "registryDigest");
    const auto id = textMember(store, "id");
    const auto squashfsDigest = textMember(store, "squashfsDigest");
    const auto identity = textMember(store, "squashfsIdentity");
    const auto layersId = textMember(store, "layersId");
    const auto platform = textMember(store, "platform");
    const auto size = store.find("squashfsSize");
    if (!registryDigest || !id || !squashfsDigest || !identity || !layersId || !platform ||
        size == store.end() || !size->is_number_unsigned()) {
        return std::nullopt;
    }
    return StoreInfo{.registryDigest = *registryDigest,
                     .id = *id,
                     .squashfsDigest = *squashfsDigest,
                     .squashfsSize = size->get<std::uint64_t>(),
                     .build = parseBuildRecord(store),
                     .identity = *identity,
                     .layersId = *layersId,
                     .platform = *platform};
}

std::uint64_t checkImageFile(int fd, const std::string& path) {
    struct stat status {};
    checkErrno(::fstat(fd, &status), cat("Failed to examine ", printable(path)));
    if (!S_ISREG(status.st_mode) || status.st_size <= 0) {
        throw Error(cat("The file \"", printable(path), "\" is ",
                        S_ISREG(status.st_mode) ? "empty" : "not a regular file"),
                    "Remove the image with 'sarus rmi' and pull it again");
    }
    return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace sarus::image
