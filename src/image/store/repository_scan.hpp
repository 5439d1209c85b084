#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "image/store/index.hpp"
#include "image/store/repository_paths.hpp"
#include "image/store/stored_image.hpp"

namespace sarus::image {

/// Which of an image's two files exist.
struct StoredFiles {
    bool squashfs = false;
    bool metadata = false;
    bool complete() const noexcept { return squashfs && metadata; }
};

/// A file that an import writes before renaming it to its final name.
struct TemporaryFile {
    std::string path;
    std::string finalPath;
    std::string suffix;
    bool metadata = false;  ///< a `.meta`, otherwise a `.squashfs`
    std::time_t modified = 0;

    /// The unique key of the image.
    std::string key(const RepositoryPaths& paths) const {
        const auto start = paths.images().size() + 1;
        return finalPath.substr(start, finalPath.find_last_of('.') - start);
    }
};

struct RepositoryScan {
    std::map<std::string, StoredFiles> images;  ///< by unique key; without files whose path is not a key
    std::vector<TemporaryFile> temporaries;
};

/// Walks through the images directory of a repository. Does not follow symbolic links below it.
RepositoryScan scanImages(const RepositoryPaths& paths);

/// The reference whose unique key is `key`; nullopt if there is none.
std::optional<ImageReference> referenceOfKey(const std::string& key);

/// The index entry of a stored image, from its files alone. Unreadable fields stay empty.
ImageRecord recordOf(const ImageReference& reference, const StoredImage& image);
ImageRecord recordOfFiles(const RepositoryPaths& paths, const ImageReference& reference);

/// Local time as `YYYY-MM-DDTHH:MM:SS`.
std::string formatLocalTime(std::time_t time);
/// The same in UTC, with a zone: `YYYY-MM-DDTHH:MM:SSZ`.

}  // namespace sarus::image
