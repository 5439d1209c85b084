#pragma once

#include "image/build/read/layout.hpp"

namespace sarus::image::build {

/// Selects an image in an archive of docker save (or podman save): by `selection`'s name if an image has it,
/// then by platform. Such an archive has no digests of its blobs: layers are checked against the image's
/// configuration, and the configuration against its own name if that is a digest. Throws Error, listing the
/// names if several images remain.
SourceImage openDockerArchive(const std::shared_ptr<const SourceFiles>& files,
                              const ImageSelection& selection);

}  // namespace sarus::image::build
