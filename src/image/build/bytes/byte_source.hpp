#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "image/build/bytes/chunk.hpp"

namespace sarus::image::build {

/// A stream of bytes that is read in place.
class ByteSource {
public:
    virtual ~ByteSource() = default;
    /// The available bytes, at least one, or none at the end of the stream. Valid until the next call.
    virtual std::span<const unsigned char> peek() = 0;
    /// Consumes the first `count` bytes returned by peek.
    virtual void consume(std::size_t count) noexcept = 0;
    /// Skips up to `count` bytes; returns the number of skipped bytes.
    virtual std::uint64_t skip(std::uint64_t count) {
        std::uint64_t skipped = 0;
        while (skipped < count) {
            const auto bytes = peek();
            if (bytes.empty()) {
                break;
            }
            const auto part =
                static_cast<std::size_t>(std::min<std::uint64_t>(count - skipped, bytes.size()));
            consume(part);
            skipped += part;
        }
        return skipped;
    }
    /// The owner of the bytes returned by peek, or null. A holder of the chunk may use them after the next
    /// call, too.
    virtual ChunkPtr chunk() const { return nullptr; }
};

}  // namespace sarus::image::build
