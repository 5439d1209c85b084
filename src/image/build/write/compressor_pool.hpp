#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "image/build/hash/hash_pool.hpp"
#include "image/build/write/block.hpp"
#include "image/build/write/block_compressor.hpp"
#include "image/build/write/block_layout.hpp"
#include "image/build/write/content_key.hpp"
#include "image/build/write/squashfs_options.hpp"
#include "squashfs/reader/file.hpp"

namespace sarus::image::build {

/// Compresses blocks on several threads. The thread that completes the next block writes it, so the output
/// depends only on the order of the blocks.
class CompressorPool {
public:
    /// The references must stay valid. `output`: for messages.
    CompressorPool(const squashfs::File& output, BlockLayout& blockLayout, HashPool& hashPool,
                   const SquashfsOptions& squashfsOptions, const ContentKeys::Secret& conversionSecret,
                   unsigned int workers);
    CompressorPool(const CompressorPool&) = delete;
    CompressorPool& operator=(const CompressorPool&) = delete;
    ~CompressorPool() { stop(); }

    /// Waits while too much is in progress. Like finish, throws errors of any thread.
    void add(Block block);

    /// Waits until all blocks are written, and ends all threads.
    void finish();

private:
    struct Slot {
        Block block;
        bool isDone = false;
    };

    void work() noexcept;
    void compress(Block& block, BlockCompressor& compressor, std::span<unsigned char> scratch,
                  ContentKeys& keys) const;
    void writeReady(std::unique_lock<std::mutex>& lock);
    std::vector<Block> takeReady();
    void release(std::size_t blocks, std::size_t bytes);
    void stop() noexcept;

    const squashfs::File& file;
    BlockLayout& layout;
    HashPool& hashes;
    const SquashfsOptions& options;
    const ContentKeys::Secret& secret;
    std::size_t limit;  ///< bytes that blocks in progress may hold

    // Shared, protected by the mutex.
    std::mutex mutex;
    std::condition_variable workToDo;
    std::condition_variable roomAgain;
    std::deque<Slot> queue;     ///< in the order of writing
    std::size_t taken = 0;      ///< number of blocks, from the front, that a thread has taken for compression
    std::size_t underWay = 0;   ///< blocks not yet written
    std::size_t keptBytes = 0;  ///< bytes that these hold
    bool writing = false;       ///< a thread is writing
    bool stopping = false;
    std::exception_ptr failure;

    std::vector<std::thread> threads;
};

}  // namespace sarus::image::build
