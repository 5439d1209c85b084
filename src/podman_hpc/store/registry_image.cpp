#include "podman_hpc/store/registry_image.hpp"

#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "oci/image/image_manifest.hpp"
#include "podman_hpc/store/image_layers.hpp"

namespace sarus::podman_hpc {

namespace {

using Json = nlohmann::ordered_json;

void moveFile(const std::string& from, const std::string& to) {
    checkErrno(::rename(from.c_str(), to.c_str()), cat("Failed to move ", printable(from)));
}

/// Moves the blobs to where an OCI layout has them. An image may have a layer twice.
void arrangeLayout(const std::string& directory, const std::string& layout,
                   const oci::ImageManifest& manifest, const std::string& manifestText,
                   const std::string& manifestDigest) {
    createDirectories(layout + "/blobs/sha256");
    createDirectories(layout + "/blobs/sha512");
    replaceFile(layout + "/oci-layout", R"({"imageLayoutVersion":"1.0.0"})", 0600);
    const auto move = [&](const oci::Digest& digest) {
        const auto blob = cat(layout, "/blobs/", digest.blobName());
        if (!pathExists(blob)) {
            moveFile(cat(directory, '/', digest.hex()), blob);
        }
    };
    move(manifest.config.digest);
    for (const auto& layer : manifest.layers) {
        move(layer.digest);
    }
    replaceFile(cat(layout, "/blobs/", oci::Digest(manifestDigest).blobName()), manifestText, 0600);
    const auto mediaType =
        Json::parse(manifestText).value("mediaType", "application/vnd.oci.image.manifest.v1+json");
    const Json index{
        {"schemaVersion", 2},
        {"manifests",
         Json::array(
             {{{"mediaType", mediaType}, {"digest", manifestDigest}, {"size", manifestText.size()}}})}};
    replaceFile(layout + "/index.json", index.dump(), 0600);
}

}  // namespace

RegistryImage arrangeRegistryImage(const std::string& directory, const std::string& name) {
    const auto manifestText = readFile(directory + "/manifest.json", largestDocument);
    const auto manifest = oci::parseImageManifest(manifestText);
    const auto manifestDigest = cat("sha256:", sha256Hex(manifestText));
    const auto& configDigest = manifest.config.digest;
    const auto configText = readFile(cat(directory, '/', configDigest.hex()), largestDocument);
    if (configDigest.algorithm() != "sha256" || sha256Hex(configText) != configDigest.hex()) {
        throw Error(cat("The image configuration does not match its digest ", configDigest.text()));
    }
    const auto layers = layerRecords(manifest, configText);
    RegistryImage image{{directory + "/store"}, directory + "/layout"};
    arrangeLayout(directory, image.layout, manifest, manifestText, manifestDigest);

    const std::string id(configDigest.hex());
    const auto manifestKey = cat("manifest-", manifestDigest);
    const Json record{{"id", id},
                      {"digest", manifestDigest},
                      {"names", {name}},
                      {"names-history", {name}},
                      {"layer", layers.back().id},
                      {"metadata", "{}"},
                      {"big-data-names", {configDigest.text(), manifestKey, "manifest"}},
                      {"big-data-sizes",
                       {{"manifest", manifestText.size()},
                        {manifestKey, manifestText.size()},
                        {configDigest.text(), configText.size()}}},
                      {"big-data-digests",
                       {{"manifest", manifestDigest},
                        {manifestKey, manifestDigest},
                        {configDigest.text(), configDigest.text()}}},
                      {"created", Json::parse(layers.back().json)["created"]}};
    const auto files = cat(image.store.images(), '/', id);
    createDirectories(files);
    createDirectories(image.store.layers());
    replaceFile(files + "/manifest", manifestText, 0600);
    replaceFile(cat(files, '/', documentFile(manifestKey)), manifestText, 0600);
    replaceFile(cat(files, '/', documentFile(configDigest.text())), configText, 0600);
    createDirectories(cat(image.store.layer(layers.front().id), "/empty"));
    replaceFile(image.store.layerList(), serialize(layers), 0600);
    replaceFile(image.store.imageList(), Json::array({record}).dump(), 0600);
    return image;
}

}  // namespace sarus::podman_hpc
