#include "image/build/layout.hpp"

#include <fcntl.h>
#include <sys/utsname.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

using Json = nlohmann::json;

constexpr std::size_t largestManifest = 4U << 20U;
constexpr std::size_t largestConfig = 16U << 20U;
constexpr int mostNestedIndexes = 8;
constexpr std::size_t mostLayers = 4096;

Json parseJson(const std::string& text, const std::string& what) {
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) {
        throw Error(cat(what, " is not a JSON object"), "the OCI layout is damaged: remove it and pull the image again");
    }
    return json;
}

std::string stringMember(const Json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const Json& member(const Json& object, const char* key, const std::string& what) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (found == object.end()) {
        throw Error(cat(what, " lacks \"", key, "\""));
    }
    return *found;
}

const Json& arrayMember(const Json& object, const char* key, const std::string& what) {
    const Json& array = member(object, key, what);
    if (!array.is_array()) {
        throw Error(cat("\"", key, "\" of ", what, " is not a list"));
    }
    return array;
}

/// Reference to a blob (OCI image specification, descriptor.md).
struct Descriptor {
    Digest digest;
    std::uint64_t size;
    std::string mediaType;
};

Descriptor parseDescriptor(const Json& json, const std::string& what) {
    const Json& size = member(json, "size", what);
    if (!size.is_number_unsigned()) {
        throw Error(cat("\"size\" of ", what, " is not a size"));
    }
    return {Digest(stringMember(json, "digest")), size.get<std::uint64_t>(), stringMember(json, "mediaType")};
}

bool isIndexType(std::string_view type) {
    return type == "application/vnd.oci.image.index.v1+json" ||
           type == "application/vnd.docker.distribution.manifest.list.v2+json";
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
        return type == "diff.tar" || type == "diff.tar.gzip" || type == "diff.tar.zstd" || type == "foreign.diff.tar" ||
               type == "foreign.diff.tar.gzip";
    }
    return false;
}

/// Reads small blobs of a layout and checks their digests.
class Layout {
public:
    explicit Layout(std::string root) : directory(std::move(root)) {}

    std::string blobPath(const Digest& digest) const { return cat(directory, "/blobs/", digest.algorithm(), '/', digest.hex()); }

    std::string indexPath() const { return directory + "/index.json"; }

    std::string readBlob(const Digest& digest, std::optional<std::uint64_t> size, std::size_t limit,
                         const std::string& what) const {
        const std::string text = readFile(blobPath(digest), limit);
        Hasher hasher(digest.algorithm());
        hasher.update({reinterpret_cast<const unsigned char*>(text.data()), text.size()});
        if ((size && text.size() != *size) || !(hasher.finish() == digest)) {
            throw Error(cat("The content of the ", what, " ", digest.text(), " does not match its digest and size"),
                        "the file is damaged: remove it and pull the image again");
        }
        return text;
    }

private:
    std::string directory;
};

int rank(std::string_view variant) {
    const auto number = parseNumber(variant.starts_with('v') ? variant.substr(1) : variant);
    return number && *number < 100 ? static_cast<int>(*number) : -1;
}

/// How well a machine `wanted` runs an image for `offered`: -1 not at all, otherwise the more the better.
int suitability(const Platform& wanted, const Platform& offered) {
    if (wanted.os != offered.os || wanted.architecture != offered.architecture) {
        return -1;
    }
    if (wanted.variant == offered.variant) {
        return 1000;
    }
    // What a platform without a variant means, per architecture (Go's and containerd's convention).
    const auto implied = [&](const std::string& variant) {
        if (!variant.empty()) {
            return rank(variant);
        }
        return wanted.architecture == "arm64" ? 8 : wanted.architecture == "arm" ? 7 : wanted.architecture == "amd64" ? 1 : 0;
    };
    const int have = implied(wanted.variant);
    const int need = implied(offered.variant);
    return need >= 0 && have >= need ? need : -1;
}

std::optional<Platform> platformOf(const Json& descriptor) {
    const auto found = descriptor.find("platform");
    if (found == descriptor.end() || !found->is_object()) {
        return std::nullopt;
    }
    return Platform{stringMember(*found, "os"), stringMember(*found, "architecture"), stringMember(*found, "variant")};
}

bool isAttestation(const Json& descriptor) {
    const auto annotations = descriptor.find("annotations");
    const auto platform = platformOf(descriptor);
    return (annotations != descriptor.end() && !stringMember(*annotations, "vnd.docker.reference.type").empty()) ||
           (platform && (platform->os == "unknown" || platform->architecture == "unknown"));
}

/// Chooses among the entries of an index.
const Json& chooseManifest(const Json& manifests, const Platform& wanted, const std::string& what) {
    const Json* best = nullptr;
    int bestRank = -1;
    std::size_t withoutPlatform = 0;
    std::string offers;
    for (const auto& descriptor : manifests) {
        if (!descriptor.is_object() || isAttestation(descriptor)) {
            continue;
        }
        const auto platform = platformOf(descriptor);
        if (platform) {
            offers += cat(offers.empty() ? "" : ", ", printable(platform->text()));
        }
        withoutPlatform += platform ? 0 : 1;
        const int value = platform ? suitability(wanted, *platform) : 0;
        if (value > bestRank) {
            bestRank = value;
            best = &descriptor;
        }
    }
    if (best == nullptr) {
        throw Error(cat("The image offers nothing for the platform ", wanted.text()),
                    offers.empty() ? std::string("the image index is empty") : cat("it offers: ", offers));
    }
    if (withoutPlatform > 1 && !platformOf(*best)) {
        throw Error(cat(what, " names several images"), "choose one with --manifest-digest");
    }
    return *best;
}

/// The manifest that a descriptor leads to, through any indexes.
struct FoundManifest {
    Digest digest;
    Json json;
};

FoundManifest findManifest(const Layout& layout, const ImageSelection& selection, const Platform& wanted) {
    std::optional<Digest> digest;
    std::optional<std::uint64_t> size;
    if (selection.manifestDigest) {
        digest.emplace(*selection.manifestDigest);
    } else {
        const Json index = parseJson(readFile(layout.indexPath(), largestManifest), layout.indexPath());
        const auto descriptor = parseDescriptor(
            chooseManifest(arrayMember(index, "manifests", layout.indexPath()), wanted, layout.indexPath()), layout.indexPath());
        digest.emplace(descriptor.digest);
        size = descriptor.size;
    }
    for (int level = 0; level < mostNestedIndexes; ++level) {
        const std::string what = cat("manifest ", digest->text());
        Json json = parseJson(layout.readBlob(*digest, size, largestManifest, "manifest"), what);
        const bool isIndex =
            isIndexType(stringMember(json, "mediaType")) || (json.contains("manifests") && !json.contains("layers"));
        if (!isIndex) {
            return {*digest, std::move(json)};
        }
        const auto descriptor = parseDescriptor(chooseManifest(arrayMember(json, "manifests", what), wanted, what), what);
        digest.emplace(descriptor.digest);
        size = descriptor.size;
    }
    throw Error("The image index is nested too deeply");
}

std::vector<Layer> readLayers(const Layout& layout, const Json& manifest, const Json& config, const std::string& what) {
    const Json& layers = arrayMember(manifest, "layers", what);
    const Json& rootfs = member(config, "rootfs", "the image configuration");
    const Json& diffIds = arrayMember(rootfs, "diff_ids", "the image configuration");
    if (layers.size() != diffIds.size()) {
        throw Error(cat("The image has ", layers.size(), " layers, but its configuration names ", diffIds.size()));
    }
    if (layers.size() > mostLayers) {
        throw Error(cat("The image has ", layers.size(), " layers; the limit is ", mostLayers));
    }
    std::vector<Layer> result;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const auto descriptor = parseDescriptor(layers[i], what);
        if (!isLayerType(descriptor.mediaType)) {
            throw Error(
                cat("Layer ", descriptor.digest.text(), " has the unsupported type '", printable(descriptor.mediaType), "'"),
                "only container images can be converted, not other artifacts or encrypted images");
        }
        const auto diffId = diffIds[i].is_string() ? diffIds[i].get<std::string>() : std::string();
        result.push_back({layout.blobPath(descriptor.digest), descriptor.digest, descriptor.size, Digest(diffId)});
    }
    return result;
}

/// Configurations often lack the variant that their index names, so only what they have to say is compared.
void checkPlatform(const Json& config, const Platform& wanted) {
    const Platform offered{stringMember(config, "os"), stringMember(config, "architecture"), ""};
    const bool known = !offered.os.empty() && !offered.architecture.empty();
    if (known && (offered.os != wanted.os || offered.architecture != wanted.architecture)) {
        throw Error(cat("The image is for the platform ", printable(offered.text()), ", not for ", wanted.text()));
    }
}

}  // namespace

Platform Platform::host() {
    struct utsname system {};
    checkErrno(::uname(&system), "Failed to identify this machine");
    const std::string_view machine = system.machine;
    if (machine == "x86_64") {
        return {"linux", "amd64", ""};
    }
    if (machine == "aarch64") {
        return {"linux", "arm64", "v8"};
    }
    if (machine.starts_with("armv")) {
        return {"linux", "arm", std::string(machine.substr(3, 2))};
    }
    return {"linux", std::string(machine), ""};  // ppc64le, s390x, riscv64: the same word
}

Platform Platform::parse(std::string_view text) {
    const auto parts = split(text, '/');
    if (parts.size() < 2 || parts.size() > 3 || parts[0].empty() || parts[1].empty() || (parts.size() == 3 && parts[2].empty())) {
        throw Error(cat("Invalid platform '", printable(text), "'"),
                    "write OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, as in linux/arm64/v8");
    }
    return {parts[0], parts[1], parts.size() == 3 ? parts[2] : std::string()};
}

std::string Platform::text() const {
    return variant.empty() ? cat(os, '/', architecture) : cat(os, '/', architecture, '/', variant);
}

ImageSource openImage(const ImageSelection& selection) {
    const Layout layout(selection.layoutDirectory);
    const Platform wanted = selection.platform.value_or(Platform::host());
    const auto manifest = findManifest(layout, selection, wanted);
    const std::string what = cat("manifest ", manifest.digest.text());
    const auto configDescriptor = parseDescriptor(member(manifest.json, "config", what), what);
    const Json config =
        parseJson(layout.readBlob(configDescriptor.digest, configDescriptor.size, largestConfig, "image configuration"),
                  cat("image configuration ", configDescriptor.digest.text()));
    if (selection.platform) {
        checkPlatform(config, wanted);
    }
    return {manifest.digest.text(), configDescriptor.digest.text(), readLayers(layout, manifest.json, config, what)};
}

}  // namespace sarus::image::build
