#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace sarus::squashfs {

/// A decompressed block of an image.
struct Block {
    std::unique_ptr<unsigned char[]> bytes;
    std::uint32_t size = 0;
    std::uint64_t next = 0;  ///< position of the block behind it in the image
    std::span<const unsigned char> content() const noexcept { return {bytes.get(), size}; }
};
using SharedBlock = std::shared_ptr<const Block>;

/// The most recently used blocks, up to a number of them. Threads that ask for one block at the same time
/// load it once. Thread-safe; must outlive its blocks.
class BlockCache {
public:
    /// All that determines a block's content: two inodes may claim different sizes at one position.
    struct Key {
        std::uint64_t position = 0;
        std::uint32_t sizeField = 0;
        bool operator==(const Key&) const = default;
    };
    /// Fills `bytes`, which holds blockSize bytes, and sets the rest. Throws Error.
    using Load = std::function<void(Block&)>;

    BlockCache(std::size_t bytesOfABlock, std::size_t maxBytes);

    SharedBlock get(const Key& key, const Load& load);
    /// True also while it is being loaded.
    bool contains(const Key& key);
    /// Frees what nobody uses at the moment.
    void clear();
    std::size_t blockSize() const noexcept { return capacity; }

private:
    struct HashKey {
        std::size_t operator()(const Key& key) const noexcept {
            return (key.position ^ key.sizeField) * 0x9E3779B97F4A7C15U >> 7U;
        }
    };
    struct Entry {
        SharedBlock block;  ///< null while it is being loaded
        std::list<Key>::iterator place;
    };

    std::shared_ptr<Block> newBlock();
    void forget(const Key& key);
    void evict();

    std::size_t capacity;
    std::size_t maxBlocks;
    // Blocks return to the pool, which therefore lives longer.
    std::mutex poolMutex;
    std::vector<std::unique_ptr<unsigned char[]>> pool;  ///< saves the kernel's zeroing of new memory
    std::mutex mutex;
    std::condition_variable loaded;
    std::unordered_map<Key, Entry, HashKey> entries;
    std::list<Key> order;  ///< most recently used first
};

}  // namespace sarus::squashfs
