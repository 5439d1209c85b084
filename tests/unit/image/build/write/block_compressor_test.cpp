// Whatever compresses a block, a squashfs driver finds the same bytes in it.

#include "image/build/write/block_compressor.hpp"

#include <gtest/gtest.h>
#include <zstd.h>

#include <random>
#include <string>
#include <vector>

namespace sarus::image::build::block_compressor_test {
namespace {

std::string textOf(std::size_t size) {
    std::mt19937 random(1);
    std::string text;
    while (text.size() < size) {
        text += std::to_string(random() % 5000) + " words and numbers ";
    }
    text.resize(size);
    return text;
}

std::string compressed(BlockCompressor& compressor, const std::string& content, std::size_t room,
                       BlockContent kind = BlockContent::file) {
    std::vector<unsigned char> out(room);
    const auto size = compressor.compress(
        kind, {reinterpret_cast<const unsigned char*>(content.data()), content.size()}, out);
    EXPECT_GE(size, 0);
    return {out.begin(), out.begin() + size};
}

std::string uncompressed(const std::string& packed, std::size_t size) {
    std::string content(size, '\0');
    const auto result = ZSTD_decompress(content.data(), content.size(), packed.data(), packed.size());
    return ZSTD_isError(result) != 0U ? ZSTD_getErrorName(result) : content.substr(0, result);
}

TEST(BlockCompressor, ABlockComesBack) {
    for (const std::string options : {"", "-Xcompression-level 3", "-comp zstd", "-b 4k"}) {
        BlockCompressor compressor(parseMksquashfsOptions(options));
        for (const std::size_t size : {1U << 17U, (1U << 17U) - 1, 8192U, 5000U, 300U}) {
            const auto content = textOf(size);
            for (const auto kind : {BlockContent::file, BlockContent::fragments}) {
                const auto packed = compressed(compressor, content, size + 4096, kind);
                EXPECT_LT(packed.size(), size / 2) << options << ' ' << size;
                EXPECT_EQ(uncompressed(packed, size), content) << options << ' ' << size;
            }
        }
    }
}

TEST(BlockCompressor, EqualBlocksGiveEqualBytesWhateverCameBefore) {
    BlockCompressor compressor{SquashfsOptions{}};
    BlockCompressor other{SquashfsOptions{}};
    const auto content = textOf(1U << 17U);
    const auto first = compressed(compressor, content, 1U << 18U);
    compressed(compressor, textOf(77'777), 1U << 18U);
    EXPECT_EQ(compressed(compressor, content, 1U << 18U), first);
    EXPECT_EQ(compressed(other, content, 1U << 18U), first);
}

TEST(BlockCompressor, WhatDoesNotBecomeSmallerIsLeftAsItIs) {
    std::mt19937 random(2);
    std::string noise(1U << 17U, '\0');
    for (auto& byte : noise) {
        byte = static_cast<char>(random());
    }
    for (const std::string options : {"", "-Xcompression-level 3", "-comp gzip", "-comp lz4"}) {
        BlockCompressor compressor(parseMksquashfsOptions(options));
        EXPECT_EQ(compressed(compressor, noise, 1U << 18U), "") << options;
        EXPECT_EQ(compressed(compressor, textOf(1U << 17U), 1000), "") << options;
    }
}

TEST(BlockCompressor, TablesDoNotGrowEither) {
    for (const std::string options : {"-comp gzip", "-comp lz4"}) {
        const auto compressor = makeCompressor(parseMksquashfsOptions(options));
        const std::string noise = "0123456789abcdefghij";
        std::string out(8192, '\0');
        EXPECT_EQ(compressor->do_block(compressor.get(), reinterpret_cast<const sqfs_u8*>(noise.data()), 20,
                                       reinterpret_cast<sqfs_u8*>(out.data()), 8192),
                  0)
            << options;
    }
}

TEST(BlockCompressor, ALevelThatIsAskedForIsZstdsOwn) {
    const auto content = textOf(1U << 17U);
    BlockCompressor compressor(parseMksquashfsOptions("-Xcompression-level 3"));
    std::string expected(1U << 18U, '\0');
    expected.resize(ZSTD_compress(expected.data(), expected.size(), content.data(), content.size(), 3));
    EXPECT_EQ(compressed(compressor, content, 1U << 18U), expected);
    BlockCompressor byDefault{SquashfsOptions{}};
    EXPECT_NE(compressed(byDefault, content, 1U << 18U), expected);
}

}  // namespace
}  // namespace sarus::image::build::block_compressor_test
