#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/build/layer_stream.hpp"

namespace sarus::image::build {

/// A platform as image indexes name it (OCI image specification, image-index.md), in Go's words: "linux", "arm64", "v8".
struct Platform {
    std::string os;
    std::string architecture;
    std::string variant;  ///< may be empty

    /// The platform of this machine.
    static Platform host();
    /// OS/ARCH or OS/ARCH/VARIANT; throws Error.
    static Platform parse(std::string_view text);
    std::string text() const;
};

/// What to convert: one image of an OCI layout, with its metadata read and checked against the digests.
struct ImageSource {
    std::string manifestDigest;
    std::string configDigest;
    std::vector<Layer> layers;  ///< the lowest first
};

/// Which image of a layout is meant.
struct ImageSelection {
    std::string layoutDirectory;                  ///< with index.json and blobs/
    std::optional<std::string> manifestDigest{};  ///< of a manifest or an image index; otherwise index.json must leave no choice
    std::optional<Platform> platform{};           ///< default: this machine's; when given, the image must be for it
};

/// Reads index.json, image indexes, manifest and configuration (OCI image specification 1.1 and Docker's version 2, schema 2).
/// Attestations and platforms "unknown" are passed over; among several variants the best one that the platform can run is taken.
/// Throws Error for whatever is missing, damaged, of another platform or of an unknown type.
ImageSource openImage(const ImageSelection& selection);

}  // namespace sarus::image::build
