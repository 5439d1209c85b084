// Files become blocks, holes and fragments, in the order in which they are to be written.

#include "image/build/write/file_cutter.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/error.hpp"

namespace sarus::image::build::file_cutter_test {
namespace {

constexpr std::size_t blockSize = 4096;

class FileCutterTest : public testing::Test {
protected:
    FileCutterTest() { options.blockSize = blockSize; }

    FileCutter cutter() {
        return {options, ContentKeys::newSecret(),
                [this](Block block) { blocks.push_back(std::move(block)); }};
    }

    /// Hands the content over in pieces of at most `step` bytes.
    static Inode fileOf(FileCutter& cutter, const std::string& content,
                        std::size_t step = std::size_t{1} << 20U) {
        Inode inode;
        inode.type = Inode::Type::regular;
        inode.size = content.size();
        cutter.begin(inode);
        for (std::size_t next = 0; next < content.size(); next += step) {
            const auto part = std::string_view(content).substr(next, step);
            cutter.append({reinterpret_cast<const unsigned char*>(part.data()), part.size()}, nullptr);
        }
        cutter.end();
        return inode;
    }

    static std::string textOf(const Block& block) { return {block.bytes.begin(), block.bytes.end()}; }

    SquashfsOptions options;
    std::vector<Block> blocks;
};

TEST_F(FileCutterTest, BlocksHoldTheContentWhateverThePieces) {
    const auto content = std::string(blockSize, 'a') + std::string(blockSize, 'b') + "end";
    for (const std::size_t step : {1U, 1000U, 4096U, 5000U, 100'000U}) {
        blocks.clear();
        auto made = cutter();
        const auto inode = fileOf(made, content, step);
        made.finish();
        ASSERT_EQ(blocks.size(), 3U) << step;
        EXPECT_EQ(textOf(blocks[0]) + textOf(blocks[1]) + textOf(blocks[2]), content);
        EXPECT_TRUE(blocks[0].isFirst && !blocks[0].isLast && blocks[0].number == 0 &&
                    blocks[0].file == inode.content.get());
        EXPECT_TRUE(!blocks[1].isFirst && blocks[1].isLast && blocks[1].number == 1 &&
                    blocks[1].file == inode.content.get());
        EXPECT_EQ(blocks[2].file, nullptr);
        EXPECT_EQ(inode.content->blocks.size(), 2U);
        EXPECT_EQ(inode.content->fragment, 0U);
        EXPECT_EQ(inode.content->fragmentOffset, 0U);
    }
}

TEST_F(FileCutterTest, WholeBlocksInAChunkAreNotCopied) {
    auto chunk = std::make_shared<Chunk>(2 * blockSize);
    std::memset(chunk->data(), 'x', 2 * blockSize);
    chunk->setSize(2 * blockSize);
    Inode inode;
    inode.size = 2 * blockSize;
    auto made = cutter();
    made.begin(inode);
    made.append(chunk->bytes(), chunk);
    made.end();
    ASSERT_EQ(blocks.size(), 2U);
    EXPECT_EQ(blocks[1].bytes.data(), chunk->bytes().data() + blockSize);
    EXPECT_EQ(blocks[0].keeps + blocks[1].keeps, chunk->capacity()) << "it is counted once";
}

TEST_F(FileCutterTest, HolesAreCountedAndNotHandedOn) {
    auto made = cutter();
    const auto inode = fileOf(
        made, std::string(blockSize, '\0') + std::string(blockSize, 'x') + std::string(blockSize, '\0'));
    ASSERT_EQ(blocks.size(), 1U);
    EXPECT_EQ(blocks[0].number, 1U);
    EXPECT_TRUE(blocks[0].isFirst && blocks[0].isLast);
    EXPECT_EQ(inode.content->holes, 2 * blockSize);
}

TEST_F(FileCutterTest, AFullBlockOfFragmentsComesBehindTheFile) {
    auto made = cutter();
    fileOf(made, std::string(3000, 'a'));
    const auto second = fileOf(made, std::string(blockSize, 'b') + std::string(2000, 'c'));
    ASSERT_EQ(blocks.size(), 2U);
    EXPECT_EQ(textOf(blocks[0]), std::string(blockSize, 'b'));
    EXPECT_EQ(textOf(blocks[1]), std::string(3000, 'a'));
    EXPECT_EQ(second.content->fragment, 1U);
    made.finish();
    ASSERT_EQ(blocks.size(), 3U);
    EXPECT_EQ(textOf(blocks[2]), std::string(2000, 'c'));
}

TEST_F(FileCutterTest, EqualEndsShareTheirPlace) {
    auto made = cutter();
    const auto first = fileOf(made, "same");
    const auto other = fileOf(made, "other");
    const auto again = fileOf(made, "same");
    EXPECT_EQ(again.content->fragmentOffset, first.content->fragmentOffset);
    EXPECT_EQ(other.content->fragmentOffset, 4U);
    options.duplicates = false;
    auto without = cutter();
    fileOf(without, "same");
    EXPECT_EQ(fileOf(without, "same").content->fragmentOffset, 4U);
}

TEST_F(FileCutterTest, WithoutFragmentsTheEndIsABlock) {
    options.fragments = false;
    auto made = cutter();
    const auto inode = fileOf(made, std::string(blockSize + 1, 'x'));
    made.finish();
    ASSERT_EQ(blocks.size(), 2U);
    EXPECT_EQ(blocks[1].bytes.size(), 1U);
    EXPECT_TRUE(blocks[1].isLast);
    EXPECT_EQ(inode.content->fragment, FileContent::noFragment);
}

TEST_F(FileCutterTest, ContentOfAnotherSizeIsAnError) {
    auto made = cutter();
    Inode inode;
    inode.size = 5;
    const std::string content = "123456";
    const std::span bytes(reinterpret_cast<const unsigned char*>(content.data()), content.size());
    made.begin(inode);
    made.append(bytes.first(3), nullptr);
    EXPECT_THROW(made.end(), Error);
    made.begin(inode);
    EXPECT_THROW(made.append(bytes, nullptr), Error);
}

}  // namespace
}  // namespace sarus::image::build::file_cutter_test
