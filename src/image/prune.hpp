#pragma once

#include <cstdint>
#include <string>

#include "image/repository.hpp"

namespace sarus::image {

struct PruneResult {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;  ///< disk space
};

/// Removes the downloaded blobs of a repository, and what killed imports have left. With `dryRun` it only counts the blobs.
/// Throws Error while an import is running, which needs them.
PruneResult pruneCache(Repository& repository, const std::string& tempDir, bool dryRun);

}  // namespace sarus::image
