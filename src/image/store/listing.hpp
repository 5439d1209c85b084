#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "image/store/index.hpp"
#include "image/store/repository_paths.hpp"
#include "oci/image/image_metadata.hpp"

namespace sarus::image {

enum class Ids { shortened, whole };

/// The table of `sarus images`, with a title line and a newline after each line.
std::string formatImageTable(const std::vector<ImageRecord>& images, bool withDigests,
                             Ids ids = Ids::shortened);

/// A narrower table for people: no server, which the repository names, and the age instead of the time. With
/// the platforms, if one of them is not that of this machine.
std::string formatShortImageTable(const RepositoryPaths& paths, const std::vector<ImageRecord>& images,
                                  std::size_t width);

/// Sets the time at which each image was stored, in the caller's time zone, from its file.
void refreshTimes(const RepositoryPaths& paths, std::vector<ImageRecord>& images);

/// Sorts by "name", "created" (the newest first) or "size" (the largest first). Throws Error for another key.
void sortImages(const RepositoryPaths& paths, std::vector<ImageRecord>& images, std::string_view key);

/// The list of `sarus images --json`: an array with an object for each image (keys: docs/man/sarus-images.1),
/// and a newline.
std::string formatImageJson(const RepositoryPaths& paths, const std::vector<ImageRecord>& images);

/// A stored image as `sarus inspect` shows it.
struct ImageDetails {
    ImageRecord record;
    std::string path;                   ///< of the squashfs file
    std::optional<std::uint64_t> size;  ///< in bytes; nullopt if the file cannot be examined
    std::string squashfsDigest;         ///< "" if none was recorded
    std::optional<BuildRecord> build;   ///< nullopt if none was recorded
    oci::ImageMetadata metadata;
};

/// Reads the files of an image of the repository, without lock or index; nullopt if there is no such image.
/// Throws Error.
std::optional<ImageDetails> inspectImage(const RepositoryPaths& paths, const ImageReference& reference);

/// Lines of "Name: value", and the same as one JSON object (keys: docs/man/sarus-inspect.1).
std::string formatImageDetails(const ImageDetails& image);
std::string formatImageDetailsJson(const ImageDetails& image);

enum class Integrity { intact, damaged, unknown };

/// Compares a stored image with the digest recorded when it was created. Reads the whole file.
Integrity verifyImage(const RepositoryPaths& paths, const ImageReference& reference);

struct VerificationReport {
    std::string text;  ///< a line for each image
    bool allIntact = true;
};

/// Calls verifyImage for all images. An unreadable image counts as damaged; one without a recorded digest
/// does not.
VerificationReport verifyImages(const RepositoryPaths& paths, const std::vector<ImageRecord>& images);

}  // namespace sarus::image
