#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace sarus::image::build {

enum class Compression { none, gzip, zstd };

/// The compression detected from a blob's first bytes. Layers are identified by content, not by media type:
/// the verified digest of the uncompressed data does not depend on the compression.
Compression detectCompression(std::span<const unsigned char> start) noexcept;

/// Streaming decompression of concatenated gzip members (RFC 1952, 2.2) or zstd frames (RFC 8878, 3.1).
class Decompressor {
public:
    struct Step {
        std::size_t consumed;
        std::size_t produced;
    };

    virtual ~Decompressor() = default;
    /// Decompresses from `in` to `out` until one of them is used up. Throws Error for damaged data, a wrong
    /// checksum, and anything after a member or frame except another one.
    virtual Step step(std::span<const unsigned char> in, std::span<unsigned char> out) = 0;
    /// True if the input may end here.
    virtual bool complete() const noexcept = 0;
};

/// `compression` is gzip or zstd.
std::unique_ptr<Decompressor> makeDecompressor(Compression compression);

/// Decompresses `from`, to its end, into `to`. Throws Error if the data are neither gzip nor zstd, damaged or
/// truncated.
void decompressFile(int from, int to);

/// The zlib implementation of gzip, which makeDecompressor uses in builds without ISA-L.
std::unique_ptr<Decompressor> makeZlibDecompressor();

}  // namespace sarus::image::build
