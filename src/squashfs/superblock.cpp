#include "squashfs/superblock.hpp"

#include <sys/stat.h>

#include <array>
#include <string_view>

#include "base/error.hpp"
#include "base/read_bytes.hpp"
#include "base/text.hpp"
#include "squashfs/little_endian.hpp"
#include "squashfs/sif.hpp"

namespace sarus::squashfs {

namespace {

std::string compressionName(std::uint16_t id) {
    constexpr std::array<const char*, 7> names{"unknown", "gzip", "lzma", "lzo", "xz", "lz4", "zstd"};
    return id < names.size() ? names.at(id) : names.front();
}

}  // namespace

SquashfsSuperblock readSquashfsSuperblock(int imageFd, const std::string& imagePath) {
    const auto shown = printable(imagePath);
    struct stat status {};
    checkErrno(::fstat(imageFd, &status), cat("Failed to inspect image ", shown));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat("Failed to use image ", shown, ": not a regular file"));
    }
    const auto part = findSquashfs(imageFd, static_cast<std::uint64_t>(status.st_size), imagePath);
    const auto start = readBytes(imageFd, part.offset, superblockSize, cat("image ", shown));
    const auto* bytes = reinterpret_cast<const unsigned char*>(start.data());
    // Offsets 0, 20, 28, 30 and 40: magic, compression, major and minor version, bytes used.
    if (start.size() < superblockSize || !start.starts_with("hsqs") ||
        littleEndian<std::uint16_t>(&bytes[28]) != 4) {
        throw Error(cat("Failed to use image ", shown, ": not a squashfs file"), pullAgain);
    }
    SquashfsSuperblock superblock{.compression = compressionName(littleEndian<std::uint16_t>(&bytes[20])),
                                  .size = littleEndian<std::uint64_t>(&bytes[40]),
                                  .offset = part.offset,
                                  .file = status};
    if (superblock.size > part.size) {
        throw Error(cat("Failed to use image ", shown, ": the file is truncated (", part.size, " of ",
                        superblock.size, " bytes)"),
                    pullAgain);
    }
    return superblock;
}

}  // namespace sarus::squashfs
