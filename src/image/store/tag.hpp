#pragma once

#include <string>

#include "image/store/repository.hpp"
#include "image/types/reference.hpp"

namespace sarus::image {

/// Gives a stored image another name (both normalised, `target` with a tag). The new image is a hard link to
/// the squashfs file, or a copy if the filesystem does not support links; each can be removed without the
/// other. Replaces an existing `target`. `tempDir`: as for ImportSession. Throws Error; then nothing has
/// changed.
void tagImage(Repository& repository, const std::string& tempDir, const ImageReference& source,
              const ImageReference& target);

}  // namespace sarus::image
