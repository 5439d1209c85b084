#include "squashfs/server/block_cache.hpp"

#include <algorithm>
#include <iterator>

namespace sarus::squashfs {

namespace {
constexpr std::size_t maxPooled = 8;
}

BlockCache::BlockCache(std::size_t bytesOfABlock, std::size_t maxBytes)
    : capacity(bytesOfABlock), maxBlocks(std::max<std::size_t>(maxBytes / bytesOfABlock, 4)) {}

std::shared_ptr<Block> BlockCache::newBlock() {
    auto block = std::make_unique<Block>();
    {
        const std::lock_guard lock(poolMutex);
        if (!pool.empty()) {
            block->bytes = std::move(pool.back());
            pool.pop_back();
        }
    }
    if (!block->bytes) {
        block->bytes.reset(new unsigned char[capacity]);  // uninitialised
    }
    return {block.release(), [this](Block* freed) {
                const std::unique_ptr<Block> owned(freed);
                const std::lock_guard lock(poolMutex);
                if (pool.size() < maxPooled) {
                    pool.push_back(std::move(owned->bytes));
                }
            }};
}

SharedBlock BlockCache::get(const Key& key, const Load& load) {
    {
        std::unique_lock lock(mutex);
        for (auto found = entries.find(key); found != entries.end(); found = entries.find(key)) {
            if (found->second.block) {
                order.splice(order.begin(), order, found->second.place);
                return found->second.block;
            }
            loaded.wait(lock);
        }
        order.push_front(key);
        entries.emplace(key, Entry{.block = nullptr, .place = order.begin()});
    }
    std::shared_ptr<Block> block;
    try {
        block = newBlock();
        load(*block);
    } catch (...) {
        forget(key);
        throw;
    }
    const std::lock_guard lock(mutex);
    entries.find(key)->second.block = block;
    evict();
    loaded.notify_all();
    return block;
}

bool BlockCache::contains(const Key& key) {
    const std::lock_guard lock(mutex);
    return entries.contains(key);
}

void BlockCache::clear() {
    {
        const std::lock_guard lock(mutex);
        std::erase_if(order, [&](const Key& key) {
            const auto found = entries.find(key);
            const bool isLoaded = static_cast<bool>(found->second.block);
            if (isLoaded) {
                entries.erase(found);
            }
            return isLoaded;
        });
    }
    const std::lock_guard lock(poolMutex);
    pool.clear();
}

void BlockCache::forget(const Key& key) {
    const std::lock_guard lock(mutex);
    const auto found = entries.find(key);
    order.erase(found->second.place);
    entries.erase(found);
    loaded.notify_all();
}

void BlockCache::evict() {
    for (auto last = order.end(); entries.size() > maxBlocks && last != order.begin();) {
        --last;
        const auto found = entries.find(*last);
        if (found->second.block) {
            entries.erase(found);
            last = order.erase(last);
        }
    }
}

}  // namespace sarus::squashfs
