#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/store/index.hpp"
#include "image/transfer/image_download.hpp"
#include "image/types/build_report.hpp"

namespace sarus::image {

struct BuilderSettings {
    std::string path;  ///< of sarus-image-builder
    std::string mksquashfsOptions;
    std::optional<std::uint64_t> maxUnpackedSize{};  ///< bytes; the builder's own limit if absent
    std::optional<std::uint64_t> maxEntries{};       ///< the builder's own limit if absent
    std::optional<std::string> platform{};           ///< the image must be for it; default: this machine's
    bool quiet = false;                              ///< no progress on standard error
};

/// The input of the builder.
struct BuildSource {
    std::string path{};    ///< directory of an OCI layout
    int descriptor = -1;   ///< instead of `path`: such a directory, an OCI archive, or one of docker save
    std::string format{};  ///< "oci", "oci-archive" or "docker-archive"; "": detected
    std::string name{};    ///< selects among several images, if one has it
    /// Fills the layout at `path` while it is converted. buildSquashfs() starts it, and waits for its end.
    ImageDownload* download = nullptr;
};

/// Finds an image and reads its metadata. Throws Error with the builder's message.
ImageDescription describeImage(const BuilderSettings& settings, const BuildSource& source);

/// What a conversion with these settings would record. Throws Error with the builder's message.
BuildRecord describeConversion(const BuilderSettings& settings);

/// Runs the builder (a separate program, because it parses hostile archives and is slow to load). Throws
/// Error with the builder's message; then `output` does not exist.
BuildReport buildSquashfs(const BuilderSettings& settings, const BuildSource& source,
                          const std::string& output);

}  // namespace sarus::image
