#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "image/build/block_compressor.hpp"
#include "image/build/squashfs_file.hpp"
#include "image/build/squashfs_options.hpp"

namespace sarus::image::build {

/// A place in a table of a squashfs, which can be told before the blocks in front of it are compressed.
struct MetadataPosition {
    std::uint32_t block = 0;   ///< number of the block
    std::uint16_t offset = 0;  ///< in its uncompressed bytes
};

/// 8 KiB of a table, or fewer at its end.
struct MetadataBlock {
    static constexpr std::size_t capacity = 8192;
    static constexpr std::size_t headerSize = 2;

    BlockContent kind;
    std::unique_ptr<unsigned char[]> bytes;  ///< behind room for the header
    std::uint32_t used = capacity;           ///< of these, without the header
    bool compressed = false;                 ///< false also where that would not make it smaller

    std::span<unsigned char> content() noexcept { return {bytes.get() + headerSize, used}; }
};

/// Compresses blocks on several threads; those start when there is enough for them to do.
class MetadataCompressor {
public:
    /// Both references must stay; `out` is for messages. `workers`: threads that work at a time, the caller's among them.
    MetadataCompressor(const SquashfsFile& out, const SquashfsOptions& squashfsOptions, unsigned int workers);
    MetadataCompressor(const MetadataCompressor&) = delete;
    MetadataCompressor& operator=(const MetadataCompressor&) = delete;
    ~MetadataCompressor();

    /// Nobody else may touch the block until finish has returned.
    void add(MetadataBlock& block);

    /// Helps until all blocks are compressed. What went wrong on any thread is thrown here.
    void finish();

private:
    void work() noexcept;
    void compressNext(std::unique_lock<std::mutex>& lock, BlockCompressor& compressor, std::span<unsigned char> buffer);
    void compress(MetadataBlock& block, BlockCompressor& compressor, std::span<unsigned char> buffer) const;

    const SquashfsFile& file;
    const SquashfsOptions& options;
    std::size_t mostThreads;
    BlockCompressor own;

    // Shared, under the mutex.
    std::mutex mutex;
    std::condition_variable workToDo;
    std::condition_variable allDone;
    std::deque<MetadataBlock*> waiting;
    std::size_t underWay = 0;  ///< blocks that a thread has taken
    bool stopping = false;
    std::exception_ptr failure;

    std::vector<std::thread> threads;
};

/// A table of a squashfs: bytes, cut into blocks of 8 KiB which are compressed each for itself (kernel documentation,
/// filesystems/squashfs.rst). All blocks but the last are full. What is in a block may be changed until it is handed over for
/// compression.
class MetadataTable {
public:
    explicit MetadataTable(BlockContent content) : kind(content) {}

    /// Where the next byte will lie.
    MetadataPosition end() const noexcept {
        return {static_cast<std::uint32_t>(length / MetadataBlock::capacity),
                static_cast<std::uint16_t>(length % MetadataBlock::capacity)};
    }
    /// Appends bytes which put() will set.
    MetadataPosition reserve(std::size_t size);
    MetadataPosition append(std::span<const unsigned char> data);
    /// Sets bytes that are there, in blocks that were not handed over. Returns the place behind them.
    MetadataPosition put(MetadataPosition position, std::span<const unsigned char> data) noexcept;

    /// Hands over the blocks in front of the one with number `block`, as far as they have not been; those must be full.
    void compressUpTo(std::uint32_t block, MetadataCompressor& compressor) {
        for (; handedOver < block; ++handedOver) {
            compressor.add(blocks[handedOver]);
        }
    }
    /// Hands over all blocks, after which nothing may be appended.
    void compressAll(MetadataCompressor& compressor);

    /// Finds out where blocks begin in the file; to be called when those handed over are compressed. Throws Error if the table
    /// is too large for the 32 bits that a squashfs has for this.
    void locate();
    /// Where a block begins, relative to the first one, as soon as all in front of it were compressed when locate was called.
    std::uint32_t start(std::uint32_t block) const noexcept { return starts[block]; }

    /// Writes the compressed blocks that were not written yet at the end of the file, and frees them. To be called when those
    /// handed over are compressed.
    void write(SquashfsFile& file);

private:
    BlockContent kind;
    std::deque<MetadataBlock> blocks;  // at addresses that stay
    std::uint64_t length = 0;          ///< bytes, uncompressed
    std::size_t handedOver = 0;        ///< blocks
    std::size_t written = 0;           ///< of these
    std::vector<std::uint32_t> starts{0};
};

}  // namespace sarus::image::build
