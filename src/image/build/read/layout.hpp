#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/build/read/layer_stream.hpp"
#include "oci/image/digest.hpp"
#include "oci/image/platform.hpp"

namespace sarus::image::build {

enum class SourceFormat { layout, ociArchive, dockerArchive };

/// "oci", "oci-archive" or "docker-archive"; throws Error.
SourceFormat parseSourceFormat(std::string_view text);
std::string_view toString(SourceFormat format) noexcept;

/// The image to convert. Its metadata are read and checked against the digests.
struct SourceImage {
    std::optional<oci::Digest>
        manifestDigest;  ///< nullopt in an archive of docker save, which has no such manifest
    oci::Digest configDigest;
    std::vector<Layer> layers;  ///< lowest first
    std::string config{};       ///< the text of the image configuration
    std::string name{};         ///< in the layout or archive; "" if it has none
    SourceFormat format = SourceFormat::layout;
};

/// Selects an image.
struct ImageSelection {
    std::string source;                    ///< directory of an OCI layout, or archive; "-": standard input
    std::optional<SourceFormat> format{};  ///< default: detected
    /// Of a manifest or an image index. Without it, index.json must be unambiguous.
    std::optional<oci::Digest> manifestDigest{};
    /// Default: this machine's. If given, the image must be for it.
    std::optional<oci::Platform> platform{};
    std::string name{};  ///< selects among several images, if one has it
    /// What still writes the layers of a layout, while its other files are complete.
    std::shared_ptr<const Download> download{};
};

/// Finds an image in an OCI layout, an OCI archive or an archive of docker save, and reads its metadata:
/// index.json, image indexes, manifest and configuration (OCI image specification 1.1 and Docker's version 2,
/// schema 2), or manifest.json and configuration. Skips attestations and platforms "unknown". Among several
/// variants selects the best one that the platform can run. Unpacks nothing. Throws Error if anything is
/// missing, damaged, for another platform or of an unknown type.
SourceImage openImage(const ImageSelection& selection);

}  // namespace sarus::image::build
