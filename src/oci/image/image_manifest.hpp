#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oci/image/digest.hpp"
#include "oci/image/platform.hpp"

namespace sarus::oci {

/// Content identified by its digest (OCI image specification, descriptor.md).
struct Descriptor {
    std::string mediaType;
    Digest digest;
    std::uint64_t size = 0;
    std::optional<Platform> platform{};
    std::string name{};  ///< the image's name in an annotation of the index; "" if there is none
    bool isAttestation = false;
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

/// The kind of a manifest, by its mediaType or, if that is missing, by its members. Throws Error if it is not
/// a JSON object or is ambiguous.
ManifestKind manifestKind(std::string_view json, std::string_view what = "The image manifest");

/// Both throw Error naming the member and the expected value; `what` is the document, for the message.
ImageManifest parseImageManifest(std::string_view json, std::string_view what = "The image manifest");
ImageIndex parseImageIndex(std::string_view json, std::string_view what = "The image index");

/// The first of the entries that suit `platform` best (oci::suitability). Entries without a platform are
/// skipped. nullptr if there is none.
const Descriptor* selectPlatform(const ImageIndex& index, const Platform& platform);

}  // namespace sarus::oci
