#include "image/import/space.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

/// The squashfs of compressed layers is about as large as they are, unless upper layers hide much of the
/// lower ones. Few images need less than a third of that. Once the layers are there, the image builder finds
/// out what they need.
constexpr std::uint64_t leastShareOfOutput = 3;
/// Layers stored as plain archives in the registry are compressed when they are stored. DEFLATE (RFC 1951)
/// makes at least two bits of 258 bytes.
constexpr std::uint64_t bestCompression = 1032;

std::optional<std::uint64_t> availableSpace(const struct statvfs& status) {
    return status.f_blocks == 0
               ? std::nullopt
               : std::optional(static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize);
}

bool isPlain(const oci::Descriptor& layer) {
    return layer.mediaType.ends_with(".tar") || layer.mediaType.ends_with(".diff");
}

std::uint64_t leastSize(const oci::Descriptor& blob) {
    return isPlain(blob) ? blob.size / bestCompression : blob.size;
}

bool isStored(const RepositoryPaths& paths, const oci::Descriptor& blob) {
    struct stat status {};
    return ::stat(cat(paths.blobs(), '/', blob.digest.blobName()).c_str(), &status) == 0 &&
           static_cast<std::uint64_t>(status.st_size) == blob.size;
}

bool onOneFilesystem(const std::string& a, const std::string& b) {
    struct stat first {};
    struct stat second {};
    return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev;
}

}  // namespace

std::optional<std::uint64_t> availableSpace(const std::string& path) {
    struct statvfs status {};
    return ::statvfs(path.c_str(), &status) == 0 ? availableSpace(status) : std::nullopt;
}

std::optional<std::uint64_t> availableSpace(int fd) {
    struct statvfs status {};
    return ::fstatvfs(fd, &status) == 0 ? availableSpace(status) : std::nullopt;
}

std::uint64_t missingBytes(const RepositoryPaths& paths, const oci::ImageManifest& manifest) {
    std::uint64_t missing = isStored(paths, manifest.config) ? 0 : manifest.config.size;
    for (const auto& layer : manifest.layers) {
        missing += isStored(paths, layer) ? 0 : leastSize(layer);
    }
    return missing;
}

void checkSpaceForPull(const RepositoryPaths& paths, const oci::ImageManifest& manifest,
                       const std::string& failure) {
    std::uint64_t output = 0;
    for (const auto& layer : manifest.layers) {
        output += leastSize(layer) / leastShareOfOutput;
    }
    const auto missing = missingBytes(paths, manifest);
    const auto check = [&](const std::string& directory, std::uint64_t needed, const std::string& purpose) {
        const auto available = availableSpace(directory);
        if (available && *available < needed) {
            throw Error(failure, cat("There is not enough space: at least ", formatSize(needed),
                                     " are needed (", purpose, "), and ", formatSize(*available),
                                     " are available in \"", printable(directory),
                                     "\".\n'sarus prune' empties the cache, 'sarus rmi' removes images; the "
                                     "directory is chosen by "
                                     "localRepositoryBaseDir in sarus.json."));
        }
    };
    const auto download = cat(formatSize(missing), " for the download");
    const auto file = cat(formatSize(output), " for the image's file");
    if (onOneFilesystem(paths.cache(), paths.images())) {
        check(paths.cache(), missing + output, cat(download, ", ", file));
    } else {
        check(paths.cache(), missing, download);
        check(paths.images(), output, file);
    }
}

void checkSpaceForSpooling(const std::string& tempDir, std::uint64_t bytes, const std::string& failure) {
    const auto available = availableSpace(tempDir);
    if (available && *available < bytes) {
        throw Error(failure, cat("There is not enough space: at least ", formatSize(bytes),
                                 " are needed for temporary files, and ", formatSize(*available),
                                 " are available in \"", printable(tempDir),
                                 "\".\nChoose another directory with --temp-dir."));
    }
}

}  // namespace sarus::image
