#include "image/source_format.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

constexpr std::size_t blockSize = 512;
constexpr int mostEntries = 100000;
using Block = std::array<char, blockSize>;

/// Reads a block, filled up with zeros at the end of the file; nullopt if nothing is there.
std::optional<Block> readBlock(int fd, std::uint64_t offset) {
    Block block{};
    std::size_t have = 0;
    while (have < block.size()) {
        const auto count = ::pread(fd, block.data() + have, block.size() - have, static_cast<off_t>(offset + have));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        checkErrno(count, "Failed to read the image file");
        if (count == 0) {
            break;
        }
        have += static_cast<std::size_t>(count);
    }
    return have > 0 ? std::optional(block) : std::nullopt;
}

bool isTarHeader(const Block& block) {
    return std::memcmp(block.data() + 257, "ustar", 5) == 0;
}

/// The size field: octal digits, or binary if its first bit is set (GNU).
std::uint64_t entrySize(const Block& block) {
    constexpr std::size_t offset = 124;
    constexpr std::size_t length = 12;
    std::uint64_t size = 0;
    const bool binary = (static_cast<unsigned char>(block[offset]) & 0x80) != 0;
    for (std::size_t i = offset + (binary ? 4 : 0); i < offset + length; ++i) {
        const auto c = static_cast<unsigned char>(block[i]);
        if (binary) {
            size = (size << 8) | c;
        } else if (c >= '0' && c <= '7') {
            size = (size << 3) | (c - '0');
        }
    }
    return size;
}

std::string_view entryName(const Block& block) {
    std::string_view name(block.data(), ::strnlen(block.data(), 100));
    while (name.starts_with("./")) {
        name.remove_prefix(2);
    }
    return name;
}

std::string transportOfTar(int fd, std::string_view shown) {
    bool oci = false;
    std::uint64_t offset = 0;
    for (int entry = 0; entry < mostEntries; ++entry) {
        const auto block = readBlock(fd, offset);
        if (!block || !isTarHeader(*block)) {
            break;
        }
        const auto name = entryName(*block);
        if (name == "manifest.json") {
            return "docker-archive";  // recent versions of docker save write both kinds at once
        }
        oci = oci || name == "oci-layout";
        const auto size = entrySize(*block);
        if (size > (std::uint64_t{1} << 60U)) {
            break;
        }
        offset += blockSize + (size + blockSize - 1) / blockSize * blockSize;
    }
    if (oci) {
        return "oci-archive";
    }
    throw Error(cat("The file \"", printable(shown), "\" is no image archive: it has neither manifest.json nor oci-layout"),
                "Make one with 'docker save', 'podman save' or 'skopeo copy'; an archive that is cut off looks like this, too");
}

}  // namespace

std::optional<std::string> decompressorOf(const std::string& path) {
    using namespace std::string_view_literals;
    const auto fd = openFile(path, O_RDONLY | O_NONBLOCK);
    struct stat status {};
    const bool regular = ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode);
    const auto block = regular ? readBlock(fd.get(), 0) : std::nullopt;
    if (!block) {
        return std::nullopt;
    }
    const std::string_view start(block->data(), 6);
    return start.starts_with("\x1f\x8b"sv)           ? std::optional<std::string>("gzip")
           : start.starts_with("\x28\xb5\x2f\xfd"sv) ? std::optional<std::string>("zstd")
           : start.starts_with("\xfd\x37zXZ"sv)      ? std::optional<std::string>("xz")
           : start.starts_with("BZh"sv)              ? std::optional<std::string>("bzip2")
                                                     : std::nullopt;
}

std::string transportOf(const std::string& path, std::string_view shown) {
    const auto fd = openFile(path, O_RDONLY | O_NONBLOCK);
    struct stat status {};
    checkErrno(::fstat(fd.get(), &status), cat("Failed to examine ", printable(shown)));
    if (S_ISDIR(status.st_mode)) {
        if (pathExists(cat(path, "/oci-layout"))) {
            return "oci";
        }
        throw Error(cat("The directory \"", printable(shown), "\" is no OCI image layout: it has no file oci-layout"));
    }
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat("The image file \"", printable(shown), "\" is not a regular file"));
    }
    const auto block = readBlock(fd.get(), 0);
    if (!block) {
        throw Error(cat("The file \"", printable(shown), "\" is empty"));
    }
    if (std::memcmp(block->data() + 32, "SIF_MAGIC", 9) == 0) {
        return "sif";
    }
    if (!isTarHeader(*block)) {
        throw Error(cat("The file \"", printable(shown), "\" is no image archive"),
                    "Make one with 'docker save', 'podman save' or 'skopeo copy'");
    }
    return transportOfTar(fd.get(), shown);
}

}  // namespace sarus::image
