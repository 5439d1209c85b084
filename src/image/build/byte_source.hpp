#pragma once

#include <cstddef>
#include <span>

#include "image/build/chunk.hpp"

namespace sarus::image::build {

/// A stream of bytes which is read in place.
class ByteSource {
public:
    virtual ~ByteSource() = default;
    /// The bytes at hand, at least one, or none at the end of the stream. Valid until the next call.
    virtual std::span<const unsigned char> peek() = 0;
    /// Takes the first `count` of the bytes which peek returned.
    virtual void consume(std::size_t count) noexcept = 0;
    /// What the bytes that peek returned belong to, or null; who holds it may use them after the next call, too.
    virtual ChunkPtr chunk() const { return nullptr; }
};

}  // namespace sarus::image::build
