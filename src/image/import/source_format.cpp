#include "image/import/source_format.hpp"

#include <string_view>

#include "base/read_bytes.hpp"
#include "squashfs/sif.hpp"

namespace sarus::image {

namespace {

using namespace std::string_view_literals;

/// The first bytes of the file, as far as available.
std::string startOf(int file) {
    return readBytes(file, 0, 64, "the image file");
}

/// The magic number of zstd, or of a skippable frame, with which pzstd begins.
bool isZstd(std::string_view start) {
    return start.starts_with("\x28\xb5\x2f\xfd"sv) ||
           (start.size() >= 4 && (static_cast<unsigned char>(start[0]) & 0xf0U) == 0x50 &&
            start.substr(1, 3) == "\x2a\x4d\x18"sv);
}

}  // namespace

std::optional<std::string> compressionOf(int file) {
    const auto start = startOf(file);
    return start.starts_with("\x1f\x8b"sv)      ? std::optional<std::string>("gzip")
           : isZstd(start)                      ? std::optional<std::string>("zstd")
           : start.starts_with("\xfd\x37zXZ"sv) ? std::optional<std::string>("xz")
           : start.starts_with("BZh"sv)         ? std::optional<std::string>("bzip2")
                                                : std::nullopt;
}

bool isSif(int file) {
    return squashfs::isSif(startOf(file));
}

}  // namespace sarus::image
