#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "oci/image/image_manifest.hpp"
#include "podman_hpc/store/records.hpp"

namespace sarus::podman_hpc {

inline constexpr std::size_t largestDocument = 4U << 20U;  ///< in bytes

/// The records of an image's layers, the lowest first, with the ids that containers/image gives them. Throws
/// Error if manifest and configuration do not fit.
std::vector<PodmanLayer> layerRecords(const oci::ImageManifest& manifest, std::string_view configuration);

/// The same from the documents of an image in `directory`. Empty if they are not there, or if the layers
/// have other ids.
std::vector<PodmanLayer> layersFromDocuments(const std::string& directory, const PodmanImage& image);

/// The file of an image's document, such as "manifest" or "sha256:...", as containers/storage names it.
std::string documentFile(const std::string& name);

}  // namespace sarus::podman_hpc
