#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/store/repository_paths.hpp"
#include "oci/image/image_manifest.hpp"

namespace sarus::image {

/// The space available to the caller in the filesystem of a file or directory, in bytes; nullopt if unknown.
std::optional<std::uint64_t> availableSpace(const std::string& path);
std::optional<std::uint64_t> availableSpace(int fd);

/// Size in bytes of an image's blobs missing in the repository's cache.
std::uint64_t missingBytes(const RepositoryPaths& paths, const oci::ImageManifest& manifest);

/// Throws Error, with numbers and a hint, if space is certainly insufficient for the download and the
/// squashfs file. `failure` is the error's message. Ignores quotas: few filesystems report them.
void checkSpaceForPull(const RepositoryPaths& paths, const oci::ImageManifest& manifest,
                       const std::string& failure);

/// Like checkSpaceForPull(), for at least `bytes` of temporary files in `tempDir`.
void checkSpaceForSpooling(const std::string& tempDir, std::uint64_t bytes, const std::string& failure);

}  // namespace sarus::image
