#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "image/repository_paths.hpp"
#include "oci/image_manifest.hpp"

namespace sarus::image {

/// What the caller may still write in the filesystem of a file or directory, in bytes; nullopt where it cannot tell.
std::optional<std::uint64_t> availableSpace(const std::string& path);

/// Bytes of an image's blobs which are not in the repository's cache.
std::uint64_t missingBytes(const RepositoryPaths& paths, const oci::ImageManifest& manifest);

/// Throws Error, with numbers and what to do, if there is certainly not enough space for the download and for the squashfs file.
/// `failure` is the error's message. Quotas are not looked at: few filesystems tell them.
void checkSpaceForPull(const RepositoryPaths& paths, const oci::ImageManifest& manifest, const std::string& failure);

/// The same for what is spooled in `tempDir`: `bytes` at least.
void checkSpaceForSpooling(const std::string& tempDir, std::uint64_t bytes, const std::string& failure);

}  // namespace sarus::image
