#include "squashfs/superblock.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "squashfs/little_endian.hpp"

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
    std::array<unsigned char, 96> bytes{};
    const auto count =
        checkErrno(::pread(imageFd, bytes.data(), bytes.size(), 0), cat("Failed to read image ", shown));
    // Offsets 0, 20, 28, 30 and 40: magic, compression, major and minor version, bytes used.
    if (static_cast<std::size_t>(count) < bytes.size() || std::memcmp(bytes.data(), "hsqs", 4) != 0 ||
        littleEndian<std::uint16_t>(&bytes[28]) != 4) {
        throw Error(cat("Failed to use image ", shown, ": not a squashfs file"), pullAgain);
    }
    SquashfsSuperblock superblock{.compression = compressionName(littleEndian<std::uint16_t>(&bytes[20])),
                                  .size = littleEndian<std::uint64_t>(&bytes[40]),
                                  .file = status};
    if (superblock.size > static_cast<std::uint64_t>(status.st_size)) {
        throw Error(cat("Failed to use image ", shown, ": the file is truncated (",
                        static_cast<std::uint64_t>(status.st_size), " of ", superblock.size, " bytes)"),
                    pullAgain);
    }
    return superblock;
}

}  // namespace sarus::squashfs
