#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "image/index.hpp"
#include "image/repository_paths.hpp"

namespace sarus::image {

/// Which of an image's two files exist.
struct StoredFiles {
    bool squashfs = false;
    bool metadata = false;
    bool complete() const noexcept { return squashfs && metadata; }
};

/// A file which an import writes before it is renamed to its final name.
struct TemporaryFile {
    std::string path;
    std::string finalPath;
    std::string suffix;
    bool metadata = false;  ///< a `.meta`, else a `.squashfs`
    std::time_t modified = 0;
};

struct RepositoryScan {
    std::map<std::string, StoredFiles> images;  ///< by unique key; files whose path is no key are left out
    std::vector<TemporaryFile> temporaries;
};

/// Walks through the images directory of a repository. Symbolic links below it are not followed.
RepositoryScan scanImages(const RepositoryPaths& paths);

/// The reference whose unique key is `key`; nullopt if there is none.
std::optional<ImageReference> referenceOfKey(const std::string& key);

/// The index entry of a stored image, made from its files alone.
ImageRecord recordOfFiles(const RepositoryPaths& paths, const ImageReference& reference);

/// Local time as `YYYY-MM-DDTHH:MM:SS`.
std::string formatLocalTime(std::time_t time);

}  // namespace sarus::image
