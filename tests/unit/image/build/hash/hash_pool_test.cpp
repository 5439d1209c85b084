// Who hashes the output does not matter for its digest.

#include "image/build/hash/hash_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sarus::image::build::hash_pool_test {
namespace {

constexpr std::size_t jobBytes = std::size_t{1} << 20U;

class HashPoolTest : public testing::Test {
protected:
    HashPoolTest() {
        for (std::size_t i = 0; i < file.size(); ++i) {
            file[i] = static_cast<unsigned char>(i / 4096 * 7 + i);
        }
    }

    /// What was written from `number` MiB on.
    HashJob job(std::size_t number) {
        const struct iovec piece { file.data() + number* jobBytes, jobBytes };
        return {BlocksToHash(number * jobBytes, {&piece, 1}), jobBytes, {}};
    }

    std::string digestOf(HashPool& pool) {
        return pool.written().finish(file.size(), [this](std::uint64_t offset,
                                                         std::span<unsigned char> buffer) {
            std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), buffer.size(), buffer.begin());
        });
    }

    std::vector<unsigned char> file = std::vector<unsigned char>(8 * jobBytes);
};

TEST_F(HashPoolTest, WhatIsTooMuchToWaitIsHashedAtOnce) {
    HashPool pool;
    pool.written().noteWrite(0, file.size(), false);
    for (std::size_t i = 0; i < 8; ++i) {
        pool.add(job(i));
    }
    std::size_t waiting = 0;
    while (auto left = pool.take()) {
        left->toHash.hashRest();
        pool.end(*left);
        ++waiting;
    }
    EXPECT_EQ(waiting, 4U);
    HashPool readAgain;
    readAgain.written().noteWrite(0, file.size(), true);
    EXPECT_EQ(digestOf(pool), digestOf(readAgain));
}

TEST_F(HashPoolTest, TheEndHashesWhatNobodyTook) {
    HashPool pool;
    pool.written().noteWrite(0, file.size(), false);
    for (std::size_t i = 0; i < 8; ++i) {
        pool.add(job(i));
    }
    pool.finish();
    EXPECT_FALSE(pool.take());
    HashPool readAgain;
    readAgain.written().noteWrite(0, file.size(), true);
    EXPECT_EQ(digestOf(pool), digestOf(readAgain));
}

}  // namespace
}  // namespace sarus::image::build::hash_pool_test
