#include "oci/image/image_manifest.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json/json_node.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::json;
using Node = JsonNode<Json>;

/// nullopt if it is missing.
std::optional<Node> memberOf(const Node& object, const char* key) {
    const auto found = object.object().find(key);
    return found == object.value().end() ? std::nullopt : std::optional(object.member(key, *found));
}

Node requiredMember(const Node& object, const char* key) {
    auto found = memberOf(object, key);
    if (!found) {
        object.reject(cat('"', key, "\" is missing"));
    }
    return std::move(*found);
}

/// "" if it is missing.
std::string textOf(const Node& object, const char* key) {
    const auto found = memberOf(object, key);
    return found && !found->value().is_null() ? found->string() : std::string();
}

Digest readDigest(const Node& descriptor) {
    const auto text = textOf(descriptor, "digest");
    if (!Digest::isValid(text)) {
        descriptor.reject(cat("Invalid digest '", printable(text), "'"));
    }
    return Digest(text);
}

Descriptor readDescriptor(const Node& node) {
    Descriptor descriptor{.mediaType = textOf(node, "mediaType"), .digest = readDigest(node)};
    descriptor.size = requiredMember(node, "size").number(INT64_MAX, "a size");
    if (const auto platform = memberOf(node, "platform"); platform && platform->value().is_object()) {
        descriptor.platform = Platform{textOf(*platform, "os"), textOf(*platform, "architecture"),
                                       textOf(*platform, "variant")};
    }
    if (const auto annotations = memberOf(node, "annotations");
        annotations && !annotations->value().is_null()) {
        // The first name is the one of containerd and Docker, the second one the specification's.
        for (const auto* key : {"io.containerd.image.name", "org.opencontainers.image.ref.name"}) {
            if (descriptor.name.empty()) {
                descriptor.name = textOf(*annotations, key);
            }
        }
        descriptor.isAttestation = !textOf(*annotations, "vnd.docker.reference.type").empty();
    }
    return descriptor;
}

std::vector<Descriptor> readDescriptors(const Node& object, const char* key) {
    return requiredMember(object, key).list("a list", readDescriptor);
}

bool hasMember(const Node& object, const char* key) {
    return object.object().contains(key);
}

}  // namespace

ManifestKind manifestKind(std::string_view text, std::string_view what) {
    const auto json = parseJson<Json>(text, what);
    const Node document(json, "", what);
    const bool hasManifests = hasMember(document, "manifests");
    if (hasManifests && (hasMember(document, "config") || hasMember(document, "layers"))) {
        document.reject("it could be taken for an image and for an index");
    }
    const auto mediaType = textOf(document, "mediaType");
    if (mediaType == "application/vnd.oci.image.manifest.v1+json" ||
        mediaType == "application/vnd.docker.distribution.manifest.v2+json") {
        return ManifestKind::imageManifest;
    }
    if (mediaType == "application/vnd.oci.image.index.v1+json" ||
        mediaType == "application/vnd.docker.distribution.manifest.list.v2+json") {
        return ManifestKind::imageIndex;
    }
    if (!mediaType.empty()) {
        return ManifestKind::unknown;
    }
    return hasManifests                    ? ManifestKind::imageIndex
           : hasMember(document, "config") ? ManifestKind::imageManifest
                                           : ManifestKind::unknown;
}

ImageManifest parseImageManifest(std::string_view text, std::string_view what) {
    const auto json = parseJson<Json>(text, what);
    const Node document(json, "", what);
    return {readDescriptor(requiredMember(document, "config")), readDescriptors(document, "layers"),
            textOf(document, "artifactType")};
}

ImageIndex parseImageIndex(std::string_view text, std::string_view what) {
    const auto json = parseJson<Json>(text, what);
    return {readDescriptors(Node(json, "", what), "manifests")};
}

namespace {

bool isConfigType(std::string_view type) {
    return type.empty() || type == "application/vnd.oci.image.config.v1+json" ||
           type == "application/vnd.docker.container.image.v1+json" ||
           type == "application/octet-stream";  // Docker 1.10
}

bool isLayerType(std::string_view type) {
    constexpr std::string_view oci = "application/vnd.oci.image.layer.";
    if (type.starts_with(oci)) {
        type.remove_prefix(oci.size());
        if (type.starts_with("nondistributable.")) {
            type.remove_prefix(std::string_view("nondistributable.").size());
        }
        return type == "v1.tar" || type == "v1.tar+gzip" || type == "v1.tar+zstd";
    }
    constexpr std::string_view docker = "application/vnd.docker.image.rootfs.";
    if (type.starts_with(docker)) {
        type.remove_prefix(docker.size());
        return type == "diff.tar" || type == "diff.tar.gzip" || type == "diff.tar.zstd" ||
               type == "foreign.diff.tar" || type == "foreign.diff.tar.gzip";
    }
    return false;
}

[[noreturn]] void refuseArtifact(std::string_view type) {
    throw Error(
        cat("This is no container image but '", printable(type), "'"),
        "Sarus takes container images only. Get other artifacts with a program for their type, such as oras");
}

}  // namespace

void checkIsImage(const ImageManifest& manifest) {
    constexpr std::string_view noConfig = "application/vnd.oci.empty.v1+json";
    const auto& config = manifest.config.mediaType;
    if (!isConfigType(config)) {
        const auto& first = manifest.layers.empty() ? config : manifest.layers.front().mediaType;
        refuseArtifact(!manifest.artifactType.empty() ? manifest.artifactType
                       : config == noConfig           ? first
                                                      : config);
    }
    for (const auto& [type, digest, size, platform, name, isAttestation] : manifest.layers) {
        if (type.ends_with("+encrypted")) {
            throw Error(cat("The image is encrypted (layers of the type '", printable(type), "')"),
                        "Decrypt it first, for example with skopeo copy --decryption-key");
        }
        if (type.empty()) {
            throw Error(cat("The layer ", digest.text(), " has no media type"));
        }
        if (!isLayerType(type)) {
            refuseArtifact(type);
        }
    }
}

void checkMayBeImage(std::string_view text) {
    const auto json = parseJson<Json>(text, "The image manifest");
    const auto type = textOf(Node(json, "", "The image manifest"), "mediaType");
    // Of the version 1, which skopeo converts.
    if (manifestKind(text) == ManifestKind::unknown && !type.empty() &&
        !type.starts_with("application/vnd.docker.distribution.manifest.")) {
        refuseArtifact(type);
    }
}

const Descriptor* selectPlatform(const ImageIndex& index, const Platform& platform) {
    const Descriptor* best = nullptr;
    int bestSuitability = -1;
    for (const auto& entry : index.manifests) {
        const int value = entry.platform ? suitability(platform, *entry.platform) : -1;
        const bool fits = best == nullptr && !entry.platform && !entry.isAttestation;
        if (value > bestSuitability || fits) {
            bestSuitability = value;
            best = &entry;
        }
    }
    return best;
}

}  // namespace sarus::oci
