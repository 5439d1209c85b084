#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace sarus::image::build {

enum class Compression { none, gzip, zstd };

/// What the first bytes of a blob say. Layers are recognised by content, not by media type: the digest of the uncompressed data,
/// which is verified, is the same whichever way they are packed.
Compression detectCompression(std::span<const unsigned char> start) noexcept;

/// Streaming decompression of concatenated gzip members (RFC 1952, 2.2) or zstd frames (RFC 8878, 3.1).
class Decompressor {
public:
    struct Step {
        std::size_t consumed;
        std::size_t produced;
    };

    virtual ~Decompressor() = default;
    /// Decompresses from `in` to `out` until one of them is used up. Throws Error on damaged data, on a wrong
    /// checksum, and on anything but a further member or frame behind the end of one.
    virtual Step step(std::span<const unsigned char> in, std::span<unsigned char> out) = 0;
    /// True where the input may end.
    virtual bool complete() const noexcept = 0;
};

/// `compression` is gzip or zstd.
std::unique_ptr<Decompressor> makeDecompressor(Compression compression);

/// The zlib implementation of gzip, which makeDecompressor uses in builds without ISA-L.
std::unique_ptr<Decompressor> makeZlibDecompressor();

}  // namespace sarus::image::build
