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
    std::string artifactType{};      ///< "" if there is none
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

/// Throws Error, with the type, if the manifest describes something else than a container image (OCI image
/// specification, manifest.md, "Guidelines for Artifact Usage"), or if it has layers of other types.
void checkIsImage(const ImageManifest& manifest);

/// Throws Error if the manifest's own type is known to be no image's, as those of artifacts before OCI 1.1.
void checkMayBeImage(std::string_view json);

/// The first of the entries that suit `platform` best (oci::suitability). If none suits, the
/// first one without a platform, which is optional, apart from attestations. nullptr if there is none.
const Descriptor* selectPlatform(const ImageIndex& index, const Platform& platform);

}  // namespace sarus::oci
