#pragma once

#include <sqfs/frag_table.h>
#include <sys/uio.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "image/build/hash/hash_pool.hpp"
#include "image/build/write/block.hpp"
#include "image/build/write/content_key.hpp"
#include "squashfs/reader/file.hpp"

namespace sarus::image::build {

/// Assigns positions in the file to compressed blocks, and writes them. A file with the same blocks as an
/// earlier one shares that one's position.
class BlockLayout {
public:
    /// Writes from the end of `output` on. The references must stay valid. `duplicates`: look for equal
    /// files.
    BlockLayout(squashfs::File& output, WrittenDigest& outputDigest, sqfs_frag_table_t& fragmentTable,
                bool duplicates, const ContentKeys::Secret& secret);

    /// Call it in the order of the blocks, from one thread at a time. Returns the parts of them to hash.
    HashJob write(std::vector<Block> blocks);

    /// Truncates what was discarded last.
    void finish() { file.truncate(position); }

private:
    /// The data to write, and their position.
    struct Pieces {
        std::uint64_t begin;
        std::vector<struct iovec> list{};
    };

    void place(const Block& block, Pieces& pieces);
    void endFile(FileContent& content, Pieces& pieces);

    squashfs::File& file;
    WrittenDigest& digest;
    sqfs_frag_table_t& fragments;
    bool findsEqual;
    ContentKeys keys;
    std::uint64_t position;
    std::uint64_t fileStart = 0;  ///< of the file whose blocks are being placed
    ContentKey fileKey{};         ///< of its blocks so far
    std::unordered_map<ContentKey, std::uint64_t, ContentKeyHash> knownFiles;
};

}  // namespace sarus::image::build
