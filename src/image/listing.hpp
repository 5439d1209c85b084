#pragma once

#include <string>
#include <vector>

#include "image/index.hpp"
#include "image/repository_paths.hpp"

namespace sarus::image {

/// The table of `sarus images`, with a line for the titles and a newline after each line.
std::string formatImageTable(const std::vector<ImageRecord>& images, bool withDigests);

enum class Integrity { intact, damaged, unknown };

/// Compares a stored image with the digest that was recorded when it was made. Reads the whole file.
Integrity verifyImage(const RepositoryPaths& paths, const ImageReference& reference);

}  // namespace sarus::image
