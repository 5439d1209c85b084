#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "base/error.hpp"
#include "image/store/prune_plan.hpp"
#include "image/store/repository.hpp"

namespace sarus::image {

/// "The cache is in use by 'sarus pull' or 'sarus load'".
Error cacheInUse();

struct PruneResult {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;  ///< disk space
};

/// Removes the downloaded blobs of a repository and leftovers of killed imports. With `dryRun`, only counts
/// the blobs. Throws Error while an import, which needs them, is running.
PruneResult pruneCache(Repository& repository, const std::string& tempDir, bool dryRun);

/// Removes downloads and images that exceed limits (prune_plan.hpp), and leftovers of killed imports. Returns
/// what it has removed; with `dryRun`, what it would remove. nullopt while an import, which needs the
/// downloads, is running. Throws Error.
std::optional<PrunePlan> pruneToLimits(Repository& repository, const std::string& tempDir,
                                       const PruneLimits& limits, const std::set<std::string>& kept,
                                       bool dryRun);

/// `<tempDir>/sarus-<uid>/unpacked`; nullopt if it does not exist or belongs to somebody else.
std::optional<std::string> unpackedImagesDirectory(const std::string& tempDir);

/// Removes the copies of images that rootless starts on nodes without FUSE unpacked into
/// `<tempDir>/sarus-<uid>/unpacked/NAME`, unless a container uses them (it then keeps `NAME.lock` locked).
/// Does not include the size of a copy. With `dryRun`, only counts.
std::uint64_t pruneUnpackedImages(const std::string& tempDir, bool dryRun);

}  // namespace sarus::image
