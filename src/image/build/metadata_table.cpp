#include "image/build/metadata_table.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

constexpr std::uint32_t storedAsIs = 1U << 15U;  // in a block's header
constexpr std::size_t blocksPerThread = 8;       // that must wait before a thread starts for them
constexpr std::size_t bufferSize =
    MetadataBlock::capacity + 1024;  // compressors are faster where the output cannot become too large

}  // namespace

MetadataCompressor::MetadataCompressor(const SquashfsFile& out, const SquashfsOptions& squashfsOptions, unsigned int workers)
    : file(out), options(squashfsOptions), mostThreads(workers > 0 ? workers - 1 : 0), own(options) {}

MetadataCompressor::~MetadataCompressor() {
    {
        const std::lock_guard lock(mutex);
        stopping = true;
        workToDo.notify_all();
    }
    for (auto& thread : threads) {
        thread.join();
    }
}

void MetadataCompressor::add(MetadataBlock& block) {
    const std::lock_guard lock(mutex);
    waiting.push_back(&block);
    if (threads.size() < mostThreads && waiting.size() >= blocksPerThread * (threads.size() + 1)) {
        threads.emplace_back([this] { work(); });
    }
    workToDo.notify_one();
}

void MetadataCompressor::finish() {
    std::vector<unsigned char> buffer(bufferSize);
    std::unique_lock lock(mutex);
    while (!waiting.empty() && !failure) {
        compressNext(lock, own, buffer);
    }
    allDone.wait(lock, [this] { return underWay == 0; });
    if (failure) {
        std::rethrow_exception(failure);
    }
}

void MetadataCompressor::work() noexcept {
    try {
        BlockCompressor compressor(options);
        std::vector<unsigned char> buffer(bufferSize);
        std::unique_lock lock(mutex);
        while (true) {
            workToDo.wait(lock, [this] { return !waiting.empty() || stopping; });
            if (stopping || failure) {
                return;
            }
            compressNext(lock, compressor, buffer);
        }
    } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
    }
}

/// Under the lock, which is given up for the time that it takes.
void MetadataCompressor::compressNext(std::unique_lock<std::mutex>& lock, BlockCompressor& compressor,
                                      std::span<unsigned char> buffer) {
    MetadataBlock& block = *waiting.front();
    waiting.pop_front();
    ++underWay;
    lock.unlock();
    std::exception_ptr problem;
    try {
        compress(block, compressor, buffer);
    } catch (...) {
        problem = std::current_exception();
    }
    lock.lock();
    if (problem) {
        failure = problem;
    }
    if (--underWay == 0) {
        allDone.notify_all();
    }
}

void MetadataCompressor::compress(MetadataBlock& block, BlockCompressor& compressor, std::span<unsigned char> buffer) const {
    const auto size = compressor.compress(block.kind, block.content(), buffer);
    file.check(size, "Failed to compress for");
    if (size > 0) {
        block.used = static_cast<std::uint32_t>(size);
        block.bytes = std::make_unique_for_overwrite<unsigned char[]>(MetadataBlock::headerSize + block.used);
        std::memcpy(block.content().data(), buffer.data(), block.used);
        block.compressed = true;
    }
}

MetadataPosition MetadataTable::reserve(std::size_t size) {
    const auto begin = end();
    length += size;
    while (length > blocks.size() * MetadataBlock::capacity) {
        blocks.push_back(
            {kind, std::make_unique_for_overwrite<unsigned char[]>(MetadataBlock::headerSize + MetadataBlock::capacity)});
    }
    return begin;
}

MetadataPosition MetadataTable::append(std::span<const unsigned char> data) {
    const auto begin = end();
    if (begin.offset != 0 && begin.offset + data.size() <= MetadataBlock::capacity) {
        std::memcpy(blocks.back().bytes.get() + MetadataBlock::headerSize + begin.offset, data.data(), data.size());
        length += data.size();
        return begin;
    }
    reserve(data.size());
    put(begin, data);
    return begin;
}

MetadataPosition MetadataTable::put(MetadataPosition position, std::span<const unsigned char> data) noexcept {
    while (!data.empty()) {
        const auto count = std::min<std::size_t>(MetadataBlock::capacity - position.offset, data.size());
        std::memcpy(blocks[position.block].bytes.get() + MetadataBlock::headerSize + position.offset, data.data(), count);
        data = data.subspan(count);
        position = position.offset + count == MetadataBlock::capacity
                       ? MetadataPosition{position.block + 1, 0}
                       : MetadataPosition{position.block, static_cast<std::uint16_t>(position.offset + count)};
    }
    return position;
}

void MetadataTable::compressAll(MetadataCompressor& compressor) {
    if (length % MetadataBlock::capacity != 0) {
        blocks.back().used = static_cast<std::uint32_t>(length % MetadataBlock::capacity);
    }
    compressUpTo(static_cast<std::uint32_t>(blocks.size()), compressor);
}

void MetadataTable::locate() {
    while (starts.size() <= handedOver) {
        const auto start = std::uint64_t{starts.back()} + MetadataBlock::headerSize + blocks[starts.size() - 1].used;
        if (start > std::numeric_limits<std::uint32_t>::max()) {
            throw Error("The image has too many files for a squashfs: one of its tables would be larger than 4 GiB");
        }
        starts.push_back(static_cast<std::uint32_t>(start));
    }
}

void MetadataTable::write(SquashfsFile& file) {
    std::vector<struct iovec> pieces;
    for (auto number = written; number < handedOver; ++number) {
        auto& block = blocks[number];
        const auto header = block.used | (block.compressed ? 0U : storedAsIs);
        block.bytes[0] = static_cast<unsigned char>(header);
        block.bytes[1] = static_cast<unsigned char>(header >> 8U);
        pieces.push_back({block.bytes.get(), MetadataBlock::headerSize + block.used});
    }
    if (!pieces.empty()) {
        const auto begin = file.size();
        file.write(begin, pieces);
        BlocksToHash hashes(begin, pieces);
        hashes.hashRest();
        file.takeHashes(hashes);
    }
    for (; written < handedOver; ++written) {
        blocks[written].bytes.reset();
    }
}

}  // namespace sarus::image::build
