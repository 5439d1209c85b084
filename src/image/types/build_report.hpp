#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sarus::image {

/// What sarus-image-builder prints about a squashfs file that it has written: one line of JSON.
struct BuildReport {
    /// "" and omitted from the line for archives of docker save, which have none
    std::string manifestDigest{};
    std::string configDigest;
    std::string config;          ///< the text of the image configuration with this digest
    std::string squashfsDigest;  ///< "fsverity-sha256:..."
    std::uint64_t squashfsSize = 0;
    std::uint64_t entries = 0;  ///< names in the image
    std::string owner;          ///< of all files, "UID:GID"
    std::string builder;        ///< its version
    std::string compressor;     ///< the library and its version
    /// For other programs that convert the same layers (image/store/conversions.hpp). "" and omitted if they
    /// cannot use the file.
    std::string layersId{};
};

std::string serializeBuildReport(const BuildReport& report);
/// Throws Error if something is missing or malformed.
BuildReport parseBuildReport(std::string_view line);

/// What it prints about an image before conversion.
struct ImageDescription {
    std::string format;  ///< "oci", "oci-archive" or "docker-archive"
    std::string configDigest;
    std::string name;      ///< as in the layout or archive, unchecked; "" if there is none
    std::string config;    ///< the text of the image configuration with this digest
    std::string layersId;  ///< image/store/conversions.hpp; "" if there are no layers
};

std::string serializeImageDescription(const ImageDescription& description);
/// Throws Error if something is missing.
ImageDescription parseImageDescription(std::string_view line);

/// What it prints about its conversions with some options: together with the layers, this determines the
/// bytes of the file (members as in BuildReport).
struct ConversionDescription {
    std::string owner;
    std::string builder;
    std::string compressor;
};

std::string serializeConversionDescription(const ConversionDescription& description);
/// Throws Error if something is missing.
ConversionDescription parseConversionDescription(std::string_view line);

}  // namespace sarus::image
