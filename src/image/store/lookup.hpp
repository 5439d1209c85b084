#pragma once

#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "image/store/index.hpp"
#include "image/types/reference.hpp"
#include "oci/image/image_metadata.hpp"

namespace sarus::image {

/// An image that is ready to run.
struct FoundImage {
    ImageReference reference;  ///< differs from the requested one only by the server index.docker.io
    UniqueFd file;             ///< the squashfs file, O_RDONLY
    std::string path;
    oci::ImageMetadata metadata;
    std::optional<StoreInfo> info;  ///< nullopt if Sarus 1.7 stored it
};

/// Opens the image of a (normalised) reference below `repository`; nullopt if there is none. Throws Error if
/// it is damaged.
std::optional<FoundImage> openImage(const std::string& repository, const ImageReference& reference);

/// Opens the image of a (normalised) reference below `repository`. Takes no lock and reads no index: each
/// rank of a job does this, so it opens only the squashfs file and its `.meta` file. If docker.io does not
/// have the image, says so on standard error and tries index.docker.io. Throws Error "Image <reference> is
/// not available".
FoundImage findImage(const std::string& repository, const ImageReference& reference);

}  // namespace sarus::image
