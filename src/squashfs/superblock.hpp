#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace sarus::squashfs {

/// The hint for an image that cannot be read.
inline constexpr const char* pullAgain =
    "The image file is damaged: remove it with 'sarus rmi' and pull it again";

/// In bytes (squashfs 4.0).
inline constexpr std::size_t superblockSize = 96;

/// What the superblock of a file declares: the first bytes of its squashfs filesystem.
struct SquashfsSuperblock {
    std::string compression;   ///< "gzip", "lzma", "lzo", "xz", "lz4", "zstd" or "unknown"
    std::uint64_t size = 0;    ///< bytes used by the filesystem
    std::uint64_t offset = 0;  ///< where it begins in the file: not 0 in a SIF file (sif.hpp)
    /// Status of the image. Kept because each stat of a file on a shared filesystem may cost a message.
    struct stat file {};
};

/// Reads it from an open image, a squashfs or SIF file. Throws Error if the file is not regular, empty, not
/// squashfs 4.0, or shorter than declared.
SquashfsSuperblock readSquashfsSuperblock(int imageFd, const std::string& imagePath);

}  // namespace sarus::squashfs
