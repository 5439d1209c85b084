#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.hpp"
#include "image/reference.hpp"
#include "oci/image_metadata.hpp"

namespace sarus::image {

/// An image which is ready to run.
struct FoundImage {
    ImageReference reference;  ///< differs from the one asked for only by the server index.docker.io
    UniqueFd file;             ///< the squashfs file, O_RDONLY
    std::string path;
    oci::ImageMetadata metadata;
};

/// Opens the image of a (normalised) reference below `repository`. Takes no lock and reads no index: it opens the squashfs file
/// and its `.meta` file and nothing else, since each rank of a job does so. Where docker.io does not have it, says so on standard
/// error and looks for index.docker.io. Throws Error "Image <reference> is not available".
FoundImage findImage(const std::string& repository, const ImageReference& reference);

}  // namespace sarus::image
