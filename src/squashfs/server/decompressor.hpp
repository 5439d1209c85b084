#pragma once

#include <sqfs/super.h>

#include <cstddef>
#include <memory>
#include <span>

#include "squashfs/reader/file.hpp"

namespace sarus::squashfs {

/// Decompresses blocks of an image. Use one per thread.
class Decompressor {
public:
    virtual ~Decompressor() = default;
    /// Returns the number of bytes written to `out`. Throws Error for damaged input and for more than fits.
    virtual std::size_t decompress(std::span<const unsigned char> in, std::span<unsigned char> out) = 0;
};

/// Throws Error if this build lacks the image's compressor.
std::unique_ptr<Decompressor> makeDecompressor(const sqfs_super_t& super, File& image);

}  // namespace sarus::squashfs
