#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "image/store/index.hpp"
#include "image/store/repository_paths.hpp"

namespace sarus::image {

/// The disk space of one name of an image. Names can share one file (hard links).
struct ImageUsage {
    ImageReference reference;
    std::string path;                ///< of the squashfs file
    std::pair<dev_t, ino_t> file{};  ///< its identity
    std::uint64_t links = 0;         ///< names of the file, here and elsewhere
    std::uint64_t bytes = 0;         ///< disk space
    std::time_t lastUse = 0;         ///< when `sarus run` started it, or else when it was stored
};

/// A downloaded file in the cache.
struct BlobUsage {
    std::string path;
    std::uint64_t bytes = 0;  ///< disk space
    std::time_t time = 0;     ///< of the download
};

/// The time of the last use is known to this many seconds: `sarus run` records it only if the recorded one is
/// older.
constexpr std::time_t useAccuracy = 3600;

/// Records that an image is used now. Ignores failures: not everybody who runs an image may write there.
/// `squashfs`: the path of its file in the repository.
void recordUse(const std::string& squashfs) noexcept;

/// The recorded time of the last use, or else of the import; 0 if there is no such image.
std::time_t recordedUse(const RepositoryPaths& paths, const ImageReference& reference) noexcept;

/// Leaves out images whose files have disappeared.
std::vector<ImageUsage> imageUsage(const RepositoryPaths& paths, const std::vector<ImageRecord>& images);
std::vector<BlobUsage> blobUsage(const RepositoryPaths& paths);

/// How many copies of unpacked images there are (prune.hpp), and their disk space.
struct UnpackedUsage {
    std::uint64_t copies = 0;
    std::uint64_t bytes = 0;
};
UnpackedUsage unpackedUsage(const std::string& tempDir);

}  // namespace sarus::image
