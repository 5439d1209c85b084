#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::oci {

/// For which machines an entry of an image index is meant (image-spec, image-index.md).
struct Platform {
    std::string os;
    std::string architecture;  ///< Go's names: amd64, arm64, ppc64le, ...
    std::string variant;       ///< "" if there is none; arm64 machines have "v8"

    bool operator==(const Platform&) const = default;
};

/// The platform that this program was compiled for.
Platform hostPlatform();

/// Reads "os/architecture[/variant]", in lower case. Throws Error "Invalid platform '<text>'".
Platform parsePlatformName(std::string_view text);

/// "os/architecture[/variant]".
std::string toString(const Platform& platform);

/// Content that is referred to by its digest (image-spec, descriptor.md). The digest is well-formed (isDigest).
struct Descriptor {
    std::string mediaType;
    std::string digest;
    std::uint64_t size = 0;
    std::optional<Platform> platform;
};

/// An image manifest of OCI or Docker (version 2, schema 2).
struct ImageManifest {
    Descriptor config;
    std::vector<Descriptor> layers;  ///< lowest first
};

/// An OCI image index or Docker manifest list; also the index.json of an OCI image layout.
struct ImageIndex {
    std::vector<Descriptor> manifests;
};

enum class ManifestKind { imageManifest, imageIndex, unknown };

/// What a manifest is, by its mediaType; where that is missing, by its members. Throws Error if it is no JSON object.
ManifestKind manifestKind(std::string_view json);

/// Both throw Error which names the member and what was expected.
ImageManifest parseImageManifest(std::string_view json);
ImageIndex parseImageIndex(std::string_view json);

/// Whether `text` is a digest with a registered algorithm: sha256 or sha512 and exactly that many lower-case hex digits.
bool isDigest(std::string_view text);

/// The entry for `platform`: same os and architecture, and the same variant; else one that names no variant.
/// Entries without a platform are skipped. nullptr if there is none.
const Descriptor* selectPlatform(const ImageIndex& index, const Platform& platform);

}  // namespace sarus::oci
