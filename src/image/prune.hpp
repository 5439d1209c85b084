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

/// Removes the copies of images which rootless starts on nodes without FUSE have unpacked into
/// `<tempDir>/sarus-<uid>/unpacked/NAME`, unless a container uses them (who holds `NAME.lock` locked). The size of a copy is not
/// counted. With `dryRun` it only counts.
std::uint64_t pruneUnpackedImages(const std::string& tempDir, bool dryRun);

}  // namespace sarus::image
