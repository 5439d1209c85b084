// Tables of a squashfs: their blocks come back, whoever compressed them, and lie where the table said.

#include "image/build/metadata_table.hpp"

#include <gtest/gtest.h>
#include <sqfs/meta_reader.h>

#include <array>
#include <chrono>
#include <random>

#include "base/error.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build {
namespace {

/// An empty file for tables.
struct Output {
    explicit Output(std::string name)
        : path(std::move(name)), descriptor(openFile(path, O_RDWR | O_CREAT | O_TRUNC, 0644)), file(descriptor.get(), path) {}

    std::string path;
    UniqueFd descriptor;
    SquashfsFile file;
};

class MetadataTableTest : public testing::Test {
protected:
    /// Words, every third 8 KiB of them random.
    static std::vector<unsigned char> contentOf(std::size_t size) {
        std::mt19937 random(static_cast<unsigned int>(size));
        std::vector<unsigned char> content(size);
        for (std::size_t i = 0; i < size; ++i) {
            content[i] = static_cast<unsigned char>(i / 8192 % 3 == 2 ? random() : "metadata"[i % 8] + i / 100 % 3);
        }
        return content;
    }

    /// Appends in pieces of all sizes and compresses; returns the file.
    std::string tableOf(const std::vector<unsigned char>& content, unsigned int workers, const SquashfsOptions& options = {}) {
        Output output(layout.scratch("table"));
        auto& file = output.file;
        MetadataTable table(BlockContent::inodes);
        MetadataCompressor compressor(file, options, workers);
        for (std::size_t next = 0, step = 1; next < content.size(); step = step % 20'000 * 2 + 1) {
            const auto count = std::min(step, content.size() - next);
            table.append({content.data() + next, count});
            next += count;
            EXPECT_EQ(table.end().block, next / 8192);
            EXPECT_EQ(table.end().offset, next % 8192);
            table.compressUpTo(table.end().block, compressor);
        }
        table.compressAll(compressor);
        compressor.finish();
        table.locate();
        table.write(file);
        starts.clear();
        for (std::uint32_t block = 0; block <= (content.size() + 8191) / 8192; ++block) {
            starts.push_back(table.start(block));
        }
        return readFile(output.path);
    }

    static std::uint16_t headerAt(const std::string& bytes, std::size_t position) {
        return static_cast<std::uint16_t>(static_cast<unsigned char>(bytes.at(position)) |
                                          static_cast<unsigned char>(bytes.at(position + 1)) << 8U);
    }

    /// Checks the blocks, and returns what they contain.
    std::vector<unsigned char> contentOf(const std::string& bytes, const SquashfsOptions& options = {}) {
        const auto config = options.compressorConfig(true);
        sqfs_compressor_t* made = nullptr;
        EXPECT_EQ(sqfs_compressor_create(&config, &made), 0);
        const SquashfsPtr<sqfs_compressor_t> decompressor(made);
        std::vector<unsigned char> content;
        std::size_t position = 0;
        for (std::size_t block = 0; position < bytes.size(); ++block) {
            EXPECT_EQ(starts.at(block), position);
            EXPECT_EQ(content.size() % 8192, 0U) << "all blocks but the last are full";
            const auto header = headerAt(bytes, position);
            const std::size_t size = header & 0x7FFFU;
            const auto* data = reinterpret_cast<const unsigned char*>(bytes.data() + position + 2);
            if ((header & 0x8000U) != 0) {
                content.insert(content.end(), data, data + size);
            } else {
                std::array<unsigned char, 8192> out;
                const auto count =
                    decompressor->do_block(decompressor.get(), data, static_cast<sqfs_u32>(size), out.data(), 8192);
                EXPECT_GT(count, static_cast<sqfs_s32>(size));
                content.insert(content.end(), out.begin(), out.begin() + std::max(count, 0));
            }
            position += 2 + size;
        }
        EXPECT_EQ(starts.back(), bytes.size());
        return content;
    }

    const SquashfsOptions defaults;
    test::LayoutWriter layout;
    std::vector<std::uint32_t> starts;
};

TEST_F(MetadataTableTest, ContentsOfAllSizesComeBack) {
    for (const std::size_t size : {0U, 1U, 8191U, 8192U, 8193U, 16384U, 24576U, 24577U, 1'000'000U}) {
        const auto content = contentOf(size);
        const auto bytes = tableOf(content, 2);
        EXPECT_TRUE(contentOf(bytes) == content) << size;
    }
}

TEST_F(MetadataTableTest, TheBytesDoNotDependOnTheNumberOfThreads) {
    const auto content = contentOf(3'000'000);
    const auto expected = tableOf(content, 1);
    for (const unsigned int workers : {2U, 5U, 16U}) {
        EXPECT_TRUE(tableOf(content, workers) == expected) << workers;
    }
}

TEST_F(MetadataTableTest, EveryCompressorWillDo) {
    for (const auto* text : {"-comp gzip", "-comp xz", "-comp lz4", "-comp lz4 -Xhc", "-comp zstd -Xcompression-level 1"}) {
        const auto options = parseMksquashfsOptions(text);
        const auto content = contentOf(300'000);
        const auto bytes = tableOf(content, 2, options);
        EXPECT_LT(bytes.size(), content.size() / 2) << text;
        EXPECT_TRUE(contentOf(bytes, options) == content) << text;
    }
}

TEST_F(MetadataTableTest, WhatDoesNotBecomeSmallerIsStoredAsItIs) {
    const auto content = contentOf(3 * 8192);
    const auto bytes = tableOf(content, 1);
    EXPECT_LT(headerAt(bytes, starts[1]), 8192);
    EXPECT_EQ(headerAt(bytes, starts[2]), 0x8000U | 8192U);
}

TEST_F(MetadataTableTest, BytesCanBeSetAcrossBlocks) {
    Output output(layout.scratch("table"));
    auto& file = output.file;
    MetadataTable table(BlockContent::listings);
    MetadataCompressor compressor(file, defaults, 1);
    auto content = contentOf(20'000);
    table.append(content);
    std::fill(content.begin() + 8190, content.begin() + 16'384, std::uint8_t{7});
    const auto behind = table.put({0, 8190}, std::vector<unsigned char>(8194, 7));
    EXPECT_EQ(behind.block, 2U);
    EXPECT_EQ(behind.offset, 0U);
    EXPECT_EQ(table.reserve(2).offset, 20'000 - 16'384);
    table.put({2, 20'000 - 16'384}, std::array<unsigned char, 2>{8, 9});
    content.insert(content.end(), {8, 9});
    table.compressAll(compressor);
    compressor.finish();
    table.locate();
    table.write(file);
    starts = {0, table.start(1), table.start(2), table.start(3)};
    EXPECT_TRUE(contentOf(readFile(output.path)) == content);
}

TEST_F(MetadataTableTest, WhatIsCompressedAlreadyIsWrittenOnce) {
    Output output(layout.scratch("table"));
    auto& file = output.file;
    MetadataTable table(BlockContent::inodes);
    MetadataCompressor compressor(file, defaults, 3);
    const auto content = contentOf(500'000);
    for (std::size_t next = 0; next < content.size(); next += 50'000) {
        table.append({content.data() + next, 50'000});
        table.compressUpTo(table.end().block, compressor);
        compressor.finish();
        table.locate();
        EXPECT_EQ(table.start(table.end().block), [&] {
            table.write(file);
            return file.size();
        }());
    }
    table.compressAll(compressor);
    compressor.finish();
    table.locate();
    table.write(file);
    for (std::uint32_t block = 0; block <= table.end().block + 1; ++block) {
        starts.push_back(table.start(block));
    }
    EXPECT_TRUE(contentOf(readFile(output.path)) == content);
}

TEST_F(MetadataTableTest, AFailureOfAnotherThreadReachesTheCaller) {
    Output output(layout.scratch("table"));
    auto& file = output.file;
    SquashfsOptions options;
    MetadataCompressor compressor(file, options, 2);
    options = parseMksquashfsOptions("-comp gzip");
    options.level = 77;  // which the other thread finds when it starts
    const auto content = contentOf(20 * 8192);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const auto compressUntilFailure = [&] {
        while (std::chrono::steady_clock::now() < deadline) {
            MetadataTable table(BlockContent::inodes);
            table.append(content);
            table.compressAll(compressor);
            compressor.finish();
        }
    };
    EXPECT_THROW(compressUntilFailure(), Error);
}

}  // namespace
}  // namespace sarus::image::build
