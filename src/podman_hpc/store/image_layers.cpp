#include "podman_hpc/store/image_layers.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "oci/json/json_node.hpp"

namespace sarus::podman_hpc {

namespace {

using Json = nlohmann::ordered_json;

std::vector<oci::Digest> diffIds(const Json& config) {
    const oci::JsonNode<Json> node(config, "", "The image configuration");
    node.object();
    if (!config.contains("rootfs") || !config["rootfs"].is_object() ||
        !config["rootfs"].contains("diff_ids")) {
        node.reject("rootfs.diff_ids is missing");
    }
    return node.member("rootfs.diff_ids", config["rootfs"]["diff_ids"])
        .list("a list of digests", [](const auto& item) { return oci::Digest(item.string()); });
}

}  // namespace

std::vector<PodmanLayer> layerRecords(const oci::ImageManifest& manifest, std::string_view configuration) {
    const auto config = oci::parseJson<Json>(configuration, "The image configuration");
    const auto diffs = diffIds(config);
    if (diffs.size() != manifest.layers.size() || diffs.empty()) {
        throw Error(cat("The image has ", manifest.layers.size(), " layers, and its configuration lists ",
                        diffs.size()));
    }
    const auto created = config.contains("created") && config["created"].is_string()
                             ? config["created"].get<std::string>()
                             : std::string("1970-01-01T00:00:00Z");
    std::vector<PodmanLayer> records;
    std::string parent;
    for (std::size_t number = 0; number < diffs.size(); ++number) {
        const std::string own(diffs[number].hex());
        const auto id = parent.empty() ? own : sha256Hex(cat(parent, '+', own));
        const auto& blob = manifest.layers[number];
        Json record{{"id", id}};
        if (!parent.empty()) {
            record["parent"] = parent;
        }
        record["created"] = created;
        record["compressed-diff-digest"] = blob.digest.text();
        record["compressed-size"] = blob.size;
        record["diff-digest"] = diffs[number].text();
        record["diff-size"] = blob.size;  // for the list of images; the unpacked size is not known
        records.push_back({.id = id,
                           .parent = parent,
                           .size = blob.size,
                           .diffId = diffs[number].text(),
                           .json = record.dump()});
        parent = id;
    }
    return records;
}

std::vector<PodmanLayer> layersFromDocuments(const std::string& directory, const PodmanImage& image) {
    try {
        const auto manifest = oci::parseImageManifest(readFile(directory + "/manifest", largestDocument));
        const auto config =
            readFile(cat(directory, '/', documentFile(manifest.config.digest.text())), largestDocument);
        auto layers = layerRecords(manifest, config);
        if (layers.back().id == image.layer) {
            return layers;
        }
    } catch (const Error&) {
        // whatIsBroken() says what is wrong with the documents
    }
    return {};
}

std::string documentFile(const std::string& name) {
    const bool isPlain = std::all_of(name.begin(), name.end(), [](char c) {
        return c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
    });
    return isPlain ? name : cat('=', encodeBase64(name));
}

}  // namespace sarus::podman_hpc
