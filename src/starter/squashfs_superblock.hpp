#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace sarus::starter {

/// What a squashfs file says about itself in its first 96 bytes (squashfs 4.0).
struct SquashfsSuperblock {
    std::string compression;  ///< "gzip", "lzma", "lzo", "xz", "lz4", "zstd" or "unknown"
    std::uint64_t size = 0;   ///< bytes used by the filesystem
    struct stat file {};      ///< of the image: each question about a file on a shared filesystem may cost a message
};

/// Reads it from an open image. Throws Error if this is no regular file, empty, no squashfs 4.0 or shorter than it says.
SquashfsSuperblock readSquashfsSuperblock(int imageFd, const std::string& imagePath);

}  // namespace sarus::starter
