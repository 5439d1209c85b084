#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "image/build/bytes/chunk.hpp"
#include "image/build/tree/image_tree.hpp"
#include "image/build/write/content_key.hpp"

namespace sarus::image::build {

/// A piece of content on its way into a squashfs: a block of a file, or a block of fragments, which are the
/// ends of files.
struct Block {
    ChunkPtr chunk;                        ///< owns `bytes`
    std::span<const unsigned char> bytes;  ///< the content; after compression, the bytes to write
    std::size_t keeps = 0;        ///< bytes held until then, unless an earlier block has counted them
    FileContent* file = nullptr;  ///< null for fragments
    std::size_t number = 0;       ///< in the file
    bool isFirst = false;         ///< first written block of the file
    bool isLast = false;

    // Set by the compressor.
    std::uint32_t sizeWord = 0;  ///< number of bytes, with squashfs's mark for uncompressed blocks
    ContentKey key{};
};

}  // namespace sarus::image::build
