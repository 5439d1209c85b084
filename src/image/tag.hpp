#pragma once

#include <string>

#include "image/reference.hpp"
#include "image/repository.hpp"

namespace sarus::image {

/// Gives a stored image a further name (both normalised, `target` with a tag): the new image is a hard link to the squashfs file,
/// or a copy where the filesystem has no such links, and each of the two can be removed without the other. What `target`
/// was before is replaced. `tempDir` is that of an ImportSession. Throws Error; on failure nothing has changed.
void tagImage(Repository& repository, const std::string& tempDir, const ImageReference& source, const ImageReference& target);

}  // namespace sarus::image
