#pragma once

#include <string>

#include "base/text.hpp"
#include "image/types/reference.hpp"

namespace sarus::image {

/// The names within a repository (reference documentation, "Local system repositories").
///
/// A command that imports an image draws a suffix of 16 letters. All its temporary files have it:
/// `cache/ociImages/image-SUFFIX/`, `<key>.squashfs-SUFFIX`, `<key>.meta-SUFFIX`, `metadata.json-SUFFIX`,
/// `sarus-auth-SUFFIX.json`.
struct RepositoryPaths {
    std::string root;

    std::string index() const { return cat(root, "/metadata.json"); }
    /// Name prefix of saved damaged indices.
    std::string damagedIndex() const { return cat(root, "/metadata.json.damaged-"); }
    std::string images() const { return cat(root, "/images"); }
    std::string cache() const { return cat(root, "/cache"); }
    std::string blobs() const { return cat(root, "/cache/blobs"); }
    std::string layouts() const { return cat(root, "/cache/ociImages"); }
    std::string layout(const std::string& suffix) const { return cat(layouts(), "/image-", suffix); }
    /// One file for each image being pulled (PullLock).
    std::string pullLocks() const { return cat(root, "/cache/pulls"); }
    /// Held shared by every import, exclusively by `sarus prune`.
    std::string cacheLock() const { return cat(root, "/cache/lock"); }
    std::string squashfs(const ImageReference& reference) const {
        return cat(images(), '/', reference.uniqueKey(), ".squashfs");
    }
    std::string metadata(const ImageReference& reference) const {
        return cat(images(), '/', reference.uniqueKey(), ".meta");
    }
    /// An empty file: its time is that of the last use (usage.hpp).
    std::string lastUse(const ImageReference& reference) const {
        return cat(images(), '/', reference.uniqueKey(), ".used");
    }
};

/// Whether `text` has the form of a suffix from randomLetters().
inline bool isSuffix(std::string_view text) {
    return text.size() == 16 &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string_view::npos;
}

}  // namespace sarus::image
