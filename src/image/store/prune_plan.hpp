#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "image/store/usage.hpp"

namespace sarus::image {

struct PruneLimits {
    std::optional<std::time_t> olderThan;    ///< seconds
    std::optional<std::uint64_t> keepBytes;  ///< of images and downloads together
    std::time_t recent = 0;                  ///< seconds; images used since then stay
};

struct PrunePlan {
    std::vector<BlobUsage> blobs;
    std::vector<ImageUsage> images;
    std::uint64_t bytes = 0;  ///< disk space that becomes free
};

/// What to remove. `olderThan`: downloads of that age, and images that nobody has used for that time.
/// `keepBytes`: of the rest the oldest downloads first, then the files of images, the least recently used
/// first, until no more than that is left; a file goes with all its names, or not at all if it has names
/// outside of the repository. `kept`: names (ImageReference::full()) and paths of images that stay.
PrunePlan planPrune(std::vector<ImageUsage> images, std::vector<BlobUsage> blobs, const PruneLimits& limits,
                    const std::set<std::string>& kept, std::time_t now);

}  // namespace sarus::image
