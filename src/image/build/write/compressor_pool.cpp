#include "image/build/write/compressor_pool.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sarus::image::build {

namespace {

constexpr std::uint32_t storedAsIs = 1U << 24U;
constexpr std::size_t batchBlocks = 16;  // written together
constexpr std::size_t mostBatchBlocks = 64;

}  // namespace

CompressorPool::CompressorPool(const squashfs::File& output, BlockLayout& blockLayout, HashPool& hashPool,
                               const SquashfsOptions& squashfsOptions,
                               const ContentKeys::Secret& conversionSecret, unsigned int workers)
    : file(output),
      layout(blockLayout),
      hashes(hashPool),
      options(squashfsOptions),
      secret(conversionSecret),
      limit(std::max<std::size_t>(options.memory, std::size_t{2 * workers + 2} * options.blockSize)) {
    try {
        for (unsigned int i = 0; i < workers; ++i) {
            threads.emplace_back([this] { work(); });
        }
    } catch (...) {
        stop();
        throw;
    }
}

void CompressorPool::stop() noexcept {
    {
        const std::lock_guard lock(mutex);
        stopping = true;
        workToDo.notify_all();
    }
    for (auto& thread : threads) {
        thread.join();
    }
    threads.clear();
}

/// After waiting once, a thread waits until there is ample room, so that threads do not take turns for each
/// block.
void CompressorPool::add(Block block) {
    std::unique_lock lock(mutex);
    if (keptBytes >= limit) {
        roomAgain.wait(lock, [this] { return keptBytes <= limit - limit / 4 || failure; });
    }
    if (failure) {
        std::rethrow_exception(failure);
    }
    ++underWay;
    keptBytes += block.keeps;
    queue.push_back({std::move(block)});
    workToDo.notify_one();
}

void CompressorPool::finish() {
    {
        std::unique_lock lock(mutex);
        roomAgain.wait(lock, [this] { return underWay == 0 || failure; });
    }
    stop();
    if (failure) {
        std::rethrow_exception(failure);
    }
}

void CompressorPool::work() noexcept {
    try {
        BlockCompressor compressor(options);
        // Compressors are faster if the output always fits.
        std::vector<unsigned char> scratch(options.blockSize + options.blockSize / 64 + 1024);
        ContentKeys keys(secret);
        std::unique_lock lock(mutex);
        while (true) {
            workToDo.wait(lock, [this] { return taken < queue.size() || stopping; });
            if (stopping || failure) {
                return;
            }
            Slot& slot = queue[taken++];  // stays in place until it is done
            lock.unlock();
            compress(slot.block, compressor, scratch, keys);
            lock.lock();
            slot.isDone = true;
            writeReady(lock);
        }
    } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) {
            failure = std::current_exception();
        }
        roomAgain.notify_all();
        workToDo.notify_all();
    }
}

void CompressorPool::compress(Block& block, BlockCompressor& compressor, std::span<unsigned char> scratch,
                              ContentKeys& keys) const {
    const bool ofFile = block.file != nullptr;
    block.sizeWord = static_cast<std::uint32_t>(block.bytes.size()) | storedAsIs;
    // As with mksquashfs, -noD applies to blocks of files, not of fragments.
    if (options.compressData || !ofFile) {
        const auto size =
            compressor.compress(ofFile ? BlockContent::file : BlockContent::fragments, block.bytes, scratch);
        file.check(size, "Failed to compress for");
        if (size > 0) {
            // It may wait for long: it holds no more than it needs.
            auto packed = std::make_shared<Chunk>(static_cast<std::size_t>(size));
            std::memcpy(packed->data(), scratch.data(), packed->capacity());
            packed->setSize(packed->capacity());
            block.bytes = packed->bytes();
            block.chunk = std::move(packed);
            block.sizeWord = static_cast<std::uint32_t>(size);
        }
    }
    if (ofFile && options.duplicates) {
        block.key = keys.of(block.bytes);
    }
}

/// Writes the complete blocks at the front of the queue, unless another thread is writing. Hashes them, or
/// leaves them to others, while the next thread may write.
void CompressorPool::writeReady(std::unique_lock<std::mutex>& lock) {
    while (!writing) {
        auto blocks = takeReady();
        if (blocks.empty()) {
            return;
        }
        const auto count = blocks.size();
        std::size_t kept = 0;
        for (const auto& block : blocks) {
            kept += block.keeps;
        }
        writing = true;
        lock.unlock();
        auto job = layout.write(std::move(blocks));
        lock.lock();
        writing = false;
        release(count, kept);
        lock.unlock();
        hashes.add(std::move(job));
        lock.lock();
    }
}

/// Small pieces wait for more, unless nothing else is in progress. Requires the mutex.
std::vector<Block> CompressorPool::takeReady() {
    const auto end = std::find_if(queue.begin(), queue.end(), [](const auto& slot) { return !slot.isDone; });
    const auto ready = static_cast<std::size_t>(end - queue.begin());
    std::vector<Block> blocks;
    if (ready < batchBlocks && end != queue.end()) {
        return blocks;
    }
    for (std::size_t i = 0; i < std::min(ready, mostBatchBlocks); ++i) {
        blocks.push_back(std::move(queue.front().block));
        queue.pop_front();
        --taken;
    }
    return blocks;
}

/// Makes room for others. Requires the mutex.
void CompressorPool::release(std::size_t blocks, std::size_t bytes) {
    const bool wasFull = keptBytes > limit - limit / 4;
    keptBytes -= bytes;
    underWay -= blocks;
    if (underWay == 0 || (wasFull && keptBytes <= limit - limit / 4)) {
        roomAgain.notify_all();
    }
}

}  // namespace sarus::image::build
