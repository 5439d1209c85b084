#pragma once

#include <string>

#include "base/text.hpp"
#include "image/reference.hpp"

namespace sarus::image {

/// The names within a repository (reference documentation, "Local system repositories").
///
/// A command which imports an image draws a suffix of 16 letters; everything temporary that it makes carries it:
/// `cache/ociImages/image-SUFFIX/`, `<key>.squashfs-SUFFIX`, `<key>.meta-SUFFIX`, `metadata.json-SUFFIX`,
/// `sarus-auth-SUFFIX.json`.
struct RepositoryPaths {
    std::string root;

    std::string index() const { return cat(root, "/metadata.json"); }
    std::string images() const { return cat(root, "/images"); }
    std::string cache() const { return cat(root, "/cache"); }
    std::string blobs() const { return cat(root, "/cache/blobs"); }
    std::string layouts() const { return cat(root, "/cache/ociImages"); }
    std::string layout(const std::string& suffix) const { return cat(layouts(), "/image-", suffix); }
    /// Held shared by every import, exclusively by `sarus prune`.
    std::string cacheLock() const { return cat(root, "/cache/lock"); }
    std::string squashfs(const ImageReference& reference) const { return cat(images(), '/', reference.uniqueKey(), ".squashfs"); }
    std::string metadata(const ImageReference& reference) const { return cat(images(), '/', reference.uniqueKey(), ".meta"); }
};

/// Whether `text` is a suffix as randomLetters() draws it.
inline bool isSuffix(std::string_view text) {
    return text.size() == 16 && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string_view::npos;
}

}  // namespace sarus::image
