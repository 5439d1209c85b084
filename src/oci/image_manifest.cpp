#include "oci/image_manifest.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::json;

Json parseObject(std::string_view text) {
    auto json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) {
        throw Error("The image manifest is not valid JSON");
    }
    if (!json.is_object()) {
        throw Error("The image manifest is not a JSON object");
    }
    return json;
}

std::string stringMember(const Json& object, const char* key) {
    const auto member = object.find(key);
    if (member == object.end() || member->is_null()) {
        return {};
    }
    if (!member->is_string()) {
        throw Error(cat("Invalid image manifest: \"", key, "\" is not a string"));
    }
    return member->get<std::string>();
}

std::optional<Platform> parsePlatform(const Json& descriptor) {
    const auto member = descriptor.find("platform");
    if (member == descriptor.end() || !member->is_object()) {
        return std::nullopt;
    }
    return Platform{stringMember(*member, "os"), stringMember(*member, "architecture"), stringMember(*member, "variant")};
}

Descriptor parseDescriptor(const Json& json, std::string_view where) {
    if (!json.is_object()) {
        throw Error(cat("Invalid image manifest: ", where, " is not an object"));
    }
    Descriptor descriptor;
    descriptor.mediaType = stringMember(json, "mediaType");
    descriptor.digest = stringMember(json, "digest");
    if (!isDigest(descriptor.digest)) {
        throw Error(cat("Invalid image manifest: ", where, " has no valid digest ('", printable(descriptor.digest), "')"));
    }
    const auto size = json.find("size");
    if (size == json.end() || !size->is_number_integer() || (!size->is_number_unsigned() && size->get<std::int64_t>() < 0)) {
        throw Error(cat("Invalid image manifest: ", where, " has no valid size"));
    }
    descriptor.size = size->get<std::uint64_t>();
    descriptor.platform = parsePlatform(json);
    return descriptor;
}

std::vector<Descriptor> parseDescriptors(const Json& object, const char* key) {
    const auto member = object.find(key);
    if (member == object.end() || !member->is_array()) {
        throw Error(cat("Invalid image manifest: \"", key, "\" is not an array"));
    }
    std::vector<Descriptor> descriptors;
    for (const auto& entry : *member) {
        descriptors.push_back(parseDescriptor(entry, cat(key, '[', descriptors.size(), ']')));
    }
    return descriptors;
}

}  // namespace

Platform hostPlatform() {
#if defined(__x86_64__)
    return {"linux", "amd64", ""};
#elif defined(__aarch64__)
    return {"linux", "arm64", "v8"};
#elif defined(__arm__) && __ARM_ARCH >= 7
    return {"linux", "arm", "v7"};
#elif defined(__arm__)
    return {"linux", "arm", "v6"};
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
    return {"linux", "ppc64le", ""};
#elif defined(__s390x__)
    return {"linux", "s390x", ""};
#elif defined(__riscv) && __riscv_xlen == 64
    return {"linux", "riscv64", ""};
#else
#error "Name this architecture as container images do"
#endif
}

Platform parsePlatformName(std::string_view text) {
    constexpr std::size_t longest = 64;
    const auto parts = split(text, '/');
    const auto isName = [](const std::string& part) {
        return !part.empty() && part.size() <= longest && part[0] != '-' &&
               part.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string::npos;
    };
    if (parts.size() < 2 || parts.size() > 3 || !std::all_of(parts.begin(), parts.end(), isName)) {
        throw Error(cat("Invalid platform '", printable(text), "'"), "Write it like linux/arm64 or linux/arm/v7");
    }
    return {parts[0], parts[1], parts.size() == 3 ? parts[2] : std::string()};
}

std::string toString(const Platform& platform) {
    return cat(platform.os, '/', platform.architecture, platform.variant.empty() ? "" : "/", platform.variant);
}

ManifestKind manifestKind(std::string_view text) {
    const auto json = parseObject(text);
    const auto mediaType = stringMember(json, "mediaType");
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
    if (json.contains("manifests")) {
        return ManifestKind::imageIndex;
    }
    return json.contains("config") ? ManifestKind::imageManifest : ManifestKind::unknown;
}

ImageManifest parseImageManifest(std::string_view text) {
    const auto json = parseObject(text);
    const auto config = json.find("config");
    if (config == json.end()) {
        throw Error("Invalid image manifest: \"config\" is missing");
    }
    return {parseDescriptor(*config, "config"), parseDescriptors(json, "layers")};
}

ImageIndex parseImageIndex(std::string_view text) {
    return {parseDescriptors(parseObject(text), "manifests")};
}

bool isDigest(std::string_view text) {
    const auto colon = text.find(':');
    const auto algorithm = text.substr(0, colon);
    const std::size_t digits = algorithm == "sha256" ? 64 : algorithm == "sha512" ? 128 : 0;
    if (colon == std::string_view::npos || digits == 0 || text.size() - colon - 1 != digits) {
        return false;
    }
    return text.find_first_not_of("0123456789abcdef", colon + 1) == std::string_view::npos;
}

const Descriptor* selectPlatform(const ImageIndex& index, const Platform& platform) {
    const Descriptor* fallback = nullptr;
    for (const auto& entry : index.manifests) {
        if (!entry.platform || entry.platform->os != platform.os || entry.platform->architecture != platform.architecture) {
            continue;
        }
        if (entry.platform->variant == platform.variant) {
            return &entry;
        }
        if (entry.platform->variant.empty() && fallback == nullptr) {
            fallback = &entry;
        }
    }
    return fallback;
}

}  // namespace sarus::oci
