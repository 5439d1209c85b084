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

struct VerificationReport {
    std::string text;  ///< a line for each image
    bool allIntact = true;
};

/// verifyImage of all; an image that cannot be read counts as damaged, one without a recorded digest does not.
VerificationReport verifyImages(const RepositoryPaths& paths, const std::vector<ImageRecord>& images);

}  // namespace sarus::image
