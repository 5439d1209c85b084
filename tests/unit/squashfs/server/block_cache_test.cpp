#include "squashfs/server/block_cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.hpp"

namespace sarus::squashfs::block_cache_test {
namespace {

constexpr std::size_t blockSize = 16;

void load(Block& block) {
    block.size = 1;
    block.bytes[0] = 42;
}

TEST(BlockCache, KeepsTheBlocksThatWereUsedLast) {
    BlockCache cache(blockSize, 4 * blockSize);
    int loads = 0;
    const auto get = [&](std::uint64_t position) {
        return cache.get({.position = position, .sizeField = 0}, [&](Block& block) {
            ++loads;
            block.size = 1;
            block.bytes[0] = static_cast<unsigned char>(position);
        });
    };
    for (const std::uint64_t position : {1U, 2U, 3U, 4U, 1U, 5U, 1U}) {
        EXPECT_EQ(get(position)->content().front(), position);
    }
    EXPECT_EQ(loads, 5);
    EXPECT_TRUE(cache.contains({.position = 1, .sizeField = 0}));
    EXPECT_FALSE(cache.contains({.position = 2, .sizeField = 0}));
    EXPECT_FALSE(cache.contains({.position = 1, .sizeField = 7})) << "another size is another block";
}

TEST(BlockCache, ABlockInUseOutlivesItsPlace) {
    BlockCache cache(blockSize, 4 * blockSize);
    const auto first = cache.get({.position = 1, .sizeField = 0}, load);
    for (std::uint64_t position = 2; position < 20; ++position) {
        cache.get({.position = position, .sizeField = 0}, load)->content();
    }
    EXPECT_EQ(first->content().front(), 42);
}

TEST(BlockCache, IsClearedExceptForBlocksInUse) {
    BlockCache cache(blockSize, 4 * blockSize);
    const auto used = cache.get({.position = 1, .sizeField = 0}, load);
    cache.get({.position = 2, .sizeField = 0}, load);
    cache.clear();
    EXPECT_FALSE(cache.contains({.position = 1, .sizeField = 0}));
    EXPECT_FALSE(cache.contains({.position = 2, .sizeField = 0}));
    EXPECT_EQ(used->content().front(), 42);
    EXPECT_EQ(cache.get({.position = 2, .sizeField = 0}, load)->content().front(), 42);
}

TEST(BlockCache, ThreadsThatAskAtTheSameTimeLoadOnce) {
    BlockCache cache(blockSize, 4 * blockSize);
    std::atomic<int> loads{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
            cache.get({.position = 1, .sizeField = 0}, [&](Block& block) {
                ++loads;
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                block.size = 1;
            });
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(loads, 1);
}

TEST(BlockCache, AFailureIsNotRemembered) {
    BlockCache cache(blockSize, 4 * blockSize);
    const BlockCache::Key key{.position = 1, .sizeField = 0};
    EXPECT_THROW(cache.get(key, [](Block&) { throw Error("damaged"); }), Error);
    EXPECT_FALSE(cache.contains(key));
    EXPECT_EQ(cache.get(key, [](Block& block) { block.size = 3; })->size, 3U);
}

}  // namespace
}  // namespace sarus::squashfs::block_cache_test
