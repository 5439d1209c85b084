#pragma once

#include "image/store/repository.hpp"

namespace sarus::image {

/// Publishes an image whose squashfs file exists: `squashfs`, an open file of the same repository, becomes
/// that of `image` too. It is a hard link, or a copy where there can be none; each name can be removed or
/// replaced without the other. Throws Error; then nothing has changed.
void publishLink(Repository& repository, int squashfs, const NewImage& image);

}  // namespace sarus::image
