#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "image/build/bytes/chunk.hpp"
#include "image/build/tree/image_tree.hpp"
#include "image/build/write/block.hpp"
#include "image/build/write/content_key.hpp"
#include "image/build/write/fragment_packer.hpp"
#include "image/build/write/squashfs_options.hpp"

namespace sarus::image::build {

/// Cuts the contents of files into blocks, and passes them on in writing order: first the blocks of a file,
/// then a block of fragments that this file has filled.
class FileCutter {
public:
    using HandOn = std::function<void(Block)>;

    /// `options` must stay valid.
    FileCutter(const SquashfsOptions& squashfsOptions, const ContentKeys::Secret& secret, HandOn handOnBlock);

    /// The content of one regular file of `inode.size` bytes: begin, append until complete, end. Sets
    /// `inode.content`. `chunk` may be null; whole blocks in it are not copied.
    void begin(Inode& inode);
    void append(std::span<const unsigned char> data, const ChunkPtr& chunk);
    void end();

    /// Passes on the last fragments.
    void finish();

private:
    void beginBlock();
    void endBlock(std::span<const unsigned char> content, const ChunkPtr& chunk);

    const SquashfsOptions& options;
    HandOn handOn;
    FragmentPacker fragments;

    FileContent* file = nullptr;
    std::uint64_t remaining = 0;  ///< bytes of the file not yet in a block
    std::size_t blockNumber = 0;
    std::optional<Block> held;  ///< the last block of the file so far
    bool hasBlocks = false;
    ChunkPtr counted;  ///< the last chunk held by a block

    // The block being filled.
    std::size_t blockBytes = 0;     ///< its final size; 0: none was begun
    std::size_t filled = 0;         ///< bytes filled so far
    bool isTail = false;            ///< it will be a fragment
    std::shared_ptr<Chunk> buffer;  ///< its data, unless the bytes arrive all at once
};

}  // namespace sarus::image::build
