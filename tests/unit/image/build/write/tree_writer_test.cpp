// Trees of all shapes are in the image as they were in the layers, and what the kernel looks things up by is
// right.

#include "image/build/write/tree_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqfs/dir.h>
#include <sqfs/meta_reader.h>
#include <sqfs/table.h>

#include <set>

#include "base/error.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build::tree_writer_test {
namespace {

using test::LayoutWriter;
using test::TarWriter;
using testing::ElementsAre;

std::string numbered(std::string_view prefix, std::size_t number) {
    const auto digits = std::to_string(number);
    return cat(prefix, std::string(7 - digits.size(), '0'), digits);
}

class TreeWriterTest : public testing::Test {
protected:
    std::string image(const TarWriter& tar, std::string_view options = {}) {
        layout.writeIndex(layout.addImage({tar.finish()}));
        auto request = test::requestFor(layout, layout.scratch("out"));
        request.squashfs = parseMksquashfsOptions(options);
        entries = buildImage(request).entries;
        return request.outputPath;
    }

    test::SeenTree convert(const TarWriter& tar, std::string_view options = {}) {
        return test::readTree(image(tar, options));
    }

    static squashfs::OwnInode find(squashfs::Reader& reader, const sqfs_inode_generic_t& directory,
                                   std::string_view name) {
        for (auto& entry : reader.list(directory)) {
            if (entry.name == name) {
                return std::move(entry.inode);
            }
        }
        throw Error(cat("There is no ", name));
    }

    static squashfs::Handle<sqfs_meta_reader_t> tableReader(squashfs::Reader& reader,
                                                            sqfs_compressor_t* decompressor,
                                                            std::uint64_t start) {
        return squashfs::own(sqfs_meta_reader_create(reader.file().get(), decompressor, start,
                                                     reader.superblock().bytes_used));
    }

    LayoutWriter layout;
    std::uint64_t entries = 0;
};

TEST_F(TreeWriterTest, ARootAlone) {
    const auto path = image(TarWriter());
    EXPECT_EQ(entries, 0U);
    squashfs::Reader reader(path);
    const auto root = reader.root();
    EXPECT_EQ(reader.list(*root).size(), 0U);
    EXPECT_EQ(reader.superblock().inode_count, 1U);
    ASSERT_EQ(root->base.type, SQFS_INODE_DIR);
    EXPECT_EQ(root->data.dir.nlink, 2U);
    EXPECT_EQ(root->data.dir.size, 3U);
    EXPECT_EQ(root->data.dir.parent_inode, 2U);
    EXPECT_EQ(root->base.inode_number, 1U);
}

TEST_F(TreeWriterTest, DirectoriesKnowTheirSubdirectoriesAndParents) {
    const auto path = image(
        TarWriter().directory("a").directory("a/b").directory("a/c").directory("a/c/d").directory("e").file(
            "a/f", "x"));
    squashfs::Reader reader(path);
    const auto root = reader.root();
    const auto a = find(reader, *root, "a");
    const auto c = find(reader, *a, "c");
    const auto d = find(reader, *c, "d");
    EXPECT_EQ(root->data.dir.nlink, 4U);
    EXPECT_EQ(a->data.dir.nlink, 4U);
    EXPECT_EQ(c->data.dir.nlink, 3U);
    EXPECT_EQ(d->data.dir.nlink, 2U);
    EXPECT_EQ(root->data.dir.parent_inode, 7 + 1U);
    EXPECT_EQ(a->data.dir.parent_inode, root->base.inode_number);
    EXPECT_EQ(c->data.dir.parent_inode, a->base.inode_number);
    EXPECT_EQ(d->data.dir.parent_inode, c->base.inode_number);
    EXPECT_EQ(entries, 6U);
}

TEST_F(TreeWriterTest, EveryObjectHasItsNumber) {
    TarWriter tar;
    for (std::size_t i = 0; i < 50; ++i) {
        tar.file(numbered(cat("d", i % 5, "/f"), i), "x")
            .symlink(numbered("l", i), "x")
            .directory(numbered("e/f/g", i));
    }
    tar.hardLink("h", "d0/f0000000");
    const auto tree = convert(tar);
    std::set<std::uint32_t> numbers;
    for (const auto& [name, seen] : tree) {
        if (name != "h") {
            EXPECT_TRUE(numbers.insert(seen.inode).second) << name;
        }
    }
    EXPECT_EQ(*numbers.begin(), 1U);
    EXPECT_EQ(*numbers.rbegin(), tree.size() - 1);
    EXPECT_EQ(tree.at("h").inode, tree.at("d0/f0000000").inode);
    EXPECT_EQ(tree.at("h").links, 2U);
    EXPECT_EQ(entries, tree.size() - 1);
}

TEST_F(TreeWriterTest, DirectoriesAroundTheMostThatAHeaderCounts) {
    for (const std::size_t count : {255U, 256U, 257U, 512U, 513U}) {
        TarWriter tar;
        for (std::size_t i = 0; i < count; ++i) {
            tar.symlink(numbered("d/", i), "t");  // so small that several hundred share a block
        }
        const auto tree = convert(tar);
        EXPECT_EQ(tree.size(), count + 2);
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(tree.at(numbered("d/", i)).content, "t");
        }
    }
}

TEST_F(TreeWriterTest, HardLinksToInodesWithFarNumbers) {
    TarWriter tar;
    for (std::size_t i = 0; i < 70'000; ++i) {
        tar.file(numbered("d/", i), "");
    }
    for (const std::size_t i : {69'999U, 0U, 35'000U, 1U}) {
        tar.hardLink(cat("links/", 100'000 - i), numbered("d/", i));
    }
    tar.file("links/own", "x");
    const auto tree = convert(tar);
    for (const std::size_t i : {69'999U, 0U, 35'000U, 1U}) {
        EXPECT_EQ(tree.at(cat("links/", 100'000 - i)).inode, tree.at(numbered("d/", i)).inode);
        EXPECT_EQ(tree.at(numbered("d/", i)).links, 2U);
    }
    EXPECT_EQ(tree.at("links/own").content, "x");
    EXPECT_EQ(tree.at(numbered("d/", 2)).links, 1U);
}

TEST_F(TreeWriterTest, FarNumbersInOneBlockOfInodes) {
    TarWriter tar;
    tar.file("a/first", "");
    for (std::size_t i = 0; i < 33'000; ++i) {
        tar.directory(numbered("b/", i));  // whose inodes lie elsewhere
    }
    tar.file("c/own", "").hardLink("c/link", "a/first").hardLink("c/zlink", "a/first");
    const auto tree = convert(tar);
    EXPECT_GT(tree.at("c/own").inode - tree.at("a/first").inode, 32'768U);
    EXPECT_EQ(tree.at("c/link").inode, tree.at("a/first").inode);
    EXPECT_EQ(tree.at("c/zlink").inode, tree.at("a/first").inode);
    squashfs::Reader reader(layout.scratch("out"));
    const auto directory = find(reader, *reader.root(), "c");
    const auto decompressor = reader.newDecompressor();
    const auto& super = reader.superblock();
    const auto listings = tableReader(reader, decompressor.get(), super.directory_table_start);
    sqfs_readdir_state_t state{};
    ASSERT_EQ(sqfs_readdir_state_init(&state, &super, directory.get()), 0);
    for (const auto* name : {"link", "own", "zlink"}) {
        sqfs_dir_entry_t* entry = nullptr;
        sqfs_u32 number = 0;
        ASSERT_EQ(sqfs_meta_reader_readdir(listings.get(), &state, &entry, &number, nullptr), 0);
        sqfs_free(entry);
        EXPECT_EQ(number, tree.at(cat("c/", name)).inode) << "the listing says what the inode does";
    }
}

TEST_F(TreeWriterTest, TablesThatEndAtTheBorderOfABlock) {
    // 256 inodes of 32 bytes fill a block; one is that of the root.
    for (std::size_t files = 250; files < 260; ++files) {
        TarWriter tar;
        for (std::size_t i = 0; i < files; ++i) {
            tar.file(numbered("f", i), cat(i));
        }
        const auto tree = convert(tar);
        EXPECT_EQ(tree.size(), files + 1);
        EXPECT_EQ(tree.at(numbered("f", files - 1)).content, cat(files - 1));
    }
    // A header of 12 bytes, and 409 entries of 20 bytes, which need a second header behind 256.
    for (std::size_t files = 404; files < 414; ++files) {
        TarWriter tar;
        for (std::size_t i = 0; i < files; ++i) {
            tar.directory(numbered("dir/name_", i));
        }
        EXPECT_EQ(convert(tar).size(), files + 2);
    }
}

TEST_F(TreeWriterTest, OnlyDirectories) {
    TarWriter tar;
    std::set<std::string> names;
    for (std::size_t i = 0; i < 12; ++i) {
        for (std::size_t j = 0; j < 12; ++j) {
            for (std::size_t k = 0; k < i + j; ++k) {
                tar.directory(cat("a", i, "/b", j, "/c", k), 0700 + static_cast<unsigned int>(k % 8));
                names.insert({cat("a", i), cat("a", i, "/b", j), cat("a", i, "/b", j, "/c", k)});
            }
        }
    }
    const auto tree = convert(tar);
    const auto seen = test::namesOf(tree);
    EXPECT_TRUE(std::set<std::string>(seen.begin(), seen.end()) == names);
    EXPECT_EQ(tree.at("a11/b11/c20").mode, 0040704U);
}

TEST_F(TreeWriterTest, DirectoriesOfAllHeights) {
    TarWriter tar;
    std::string path;
    for (std::size_t level = 0; level < 900; ++level) {
        path += cat(level % 3, '/');
        tar.file(cat(path, 'f', level), cat(level));
        if (level % 10 == 0) {
            tar.directory(cat(path, "empty"));
        }
    }
    const auto tree = convert(tar);
    EXPECT_EQ(tree.size(), 1 + 900U * 2 + 90);
    EXPECT_EQ(tree.at(cat(path, "f899")).content, "899");
}

TEST_F(TreeWriterTest, ALargeDirectoryHasAnIndexThatLeadsToItsNames) {
    TarWriter tar;
    tar.file("a/small", "").file("a/small2", "");
    for (std::size_t i = 0; i < 6000; ++i) {
        tar.file(numbered(std::string(180, 'n') + '/', i) + std::string(i * 37 % 240, 'x'), "");
    }
    squashfs::Reader reader(image(tar));
    const auto directory = find(reader, *reader.root(), std::string(180, 'n'));
    ASSERT_EQ(directory->base.type, SQFS_INODE_EXT_DIR);
    const auto& extended = directory->data.dir_ext;
    EXPECT_GT(extended.size, 65'536U);
    EXPECT_GE(extended.inodex_count, (extended.size - 3 + extended.offset) / 8192)
        << "one for each block but the first";
    EXPECT_EQ(reader.list(*directory).size(), 6000U);

    const auto decompressor = reader.newDecompressor();
    const auto& super = reader.superblock();
    const auto listings = tableReader(reader, decompressor.get(), super.directory_table_start);
    std::string last;
    for (std::size_t i = 0; i < extended.inodex_count; ++i) {
        sqfs_dir_index_t* raw = nullptr;
        ASSERT_EQ(sqfs_inode_unpack_dir_index_entry(directory.get(), &raw, i), 0);
        const std::unique_ptr<sqfs_dir_index_t, decltype(&sqfs_free)> index(raw, sqfs_free);
        const std::string name(reinterpret_cast<const char*>(index->name), index->size + 1);
        EXPECT_LT(last, name);
        last = name;
        // As the kernel does it: the block from the index, the place in it from how far into the listing that
        // is.
        ASSERT_EQ(sqfs_meta_reader_seek(listings.get(), super.directory_table_start + index->start_block,
                                        (extended.offset + index->index) % 8192),
                  0);
        sqfs_dir_header_t header{};
        ASSERT_EQ(sqfs_meta_reader_read_dir_header(listings.get(), &header), 0);
        sqfs_dir_entry_t* rawEntry = nullptr;
        ASSERT_EQ(sqfs_meta_reader_read_dir_ent(listings.get(), &rawEntry), 0);
        const std::unique_ptr<sqfs_dir_entry_t, decltype(&sqfs_free)> entry(rawEntry, sqfs_free);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(entry->name), std::size_t{entry->size} + 1),
                  name);
    }
}

TEST_F(TreeWriterTest, SmallDirectoriesNeedNoIndexWhereverTheirListingsLie) {
    TarWriter tar;
    for (std::size_t i = 0; i < 3000; ++i) {
        tar.file(numbered(cat("d", i / 10, "/name"), i), "");
    }
    squashfs::Reader reader(image(tar));
    for (const auto& entry : reader.list(*reader.root())) {
        EXPECT_EQ(entry.inode->base.type, SQFS_INODE_DIR) << entry.name;
    }
}

TEST_F(TreeWriterTest, AttributesOfAllKindsOfObjects) {
    const std::vector<std::pair<std::string, std::string>> first{{"SCHILY.xattr.user.one", "1"}};
    const std::vector<std::pair<std::string, std::string>> second{{"SCHILY.xattr.user.two", "2"}};
    TarWriter tar;
    tar.add({.name = "d", .type = '5', .mode = 0755, .pax = first})
        .add({.name = "d/d", .type = '5', .mode = 0755, .pax = second})
        .add({.name = "d/d/f", .content = "content", .pax = first})
        .add({.name = "d/d/l", .type = '2', .link = "target of a link", .mode = 0777, .pax = second})
        .add({.name = "d/p", .type = '6', .pax = first})
        .add({.name = "d/b", .type = '4', .major = 7, .minor = 3, .pax = second})
        .file("d/plain", "plain");
    for (std::size_t i = 0; i < 1000; ++i) {
        tar.file(numbered("d/d/", i), "");
    }
    const auto tree = convert(tar);
    const squashfs::XattrSet one{{"user.one", "1"}};
    const squashfs::XattrSet two{{"user.two", "2"}};
    EXPECT_EQ(tree.at("d").xattrs, one);
    EXPECT_EQ(tree.at("d/d").xattrs, two) << "which has an index, too";
    EXPECT_EQ(tree.at("d/d/f").xattrs, one);
    EXPECT_EQ(tree.at("d/d/f").content, "content");
    EXPECT_EQ(tree.at("d/d/l").xattrs, two);
    EXPECT_EQ(tree.at("d/p").xattrs, one);
    EXPECT_EQ(tree.at("d/b").xattrs, two);
    EXPECT_EQ(tree.at("d/plain").xattrs, squashfs::XattrSet{});
    EXPECT_EQ(tree.at("d/plain").content, "plain");
    EXPECT_EQ(tree.at("d/d/0000999").content, "");
}

TEST_F(TreeWriterTest, TheExportTableLeadsToAllInodes) {
    TarWriter tar;
    for (std::size_t i = 0; i < 2500; ++i) {
        tar.file(numbered(cat("d", i % 7, "/"), i), "x");
    }
    tar.hardLink("h", "d1/0000001");
    squashfs::Reader reader(image(tar, "-exports"));
    const auto& super = reader.superblock();
    EXPECT_EQ(super.inode_count, 2508U);
    EXPECT_NE(super.flags & SQFS_FLAG_EXPORTABLE, 0);
    const auto decompressor = reader.newDecompressor();
    void* raw = nullptr;
    ASSERT_EQ(sqfs_read_table(reader.file().get(), decompressor.get(), super.inode_count * sizeof(sqfs_u64),
                              super.export_table_start, super.directory_table_start, super.bytes_used, &raw),
              0);
    const std::unique_ptr<void, decltype(&sqfs_free)> table(raw, sqfs_free);
    const auto inodes = tableReader(reader, decompressor.get(), super.inode_table_start);
    for (std::uint32_t number = 1; number <= super.inode_count; ++number) {
        const auto reference = le64toh(static_cast<const sqfs_u64*>(raw)[number - 1]);
        sqfs_inode_generic_t* inode = nullptr;
        ASSERT_EQ(
            sqfs_meta_reader_read_inode(inodes.get(), &super, reference >> 16U, reference & 0xFFFFU, &inode),
            0)
            << number;
        EXPECT_EQ(squashfs::OwnInode(inode)->base.inode_number, number);
    }
}

TEST_F(TreeWriterTest, TheBytesOfManyFilesDoNotDependOnTheNumberOfThreads) {
    TarWriter tar;
    for (std::size_t i = 0; i < 20'000; ++i) {
        tar.file(numbered(cat("d", i % 300, "/e", i % 7, "/"), i), cat(i % 50));
    }
    layout.writeIndex(layout.addImage({tar.finish()}));
    auto request = test::requestFor(layout, layout.scratch("out"));
    std::set<std::string> digests;
    for (const unsigned int workers : {1U, 2U, 5U}) {
        request.squashfs.workers = workers;
        digests.insert(buildImage(request).squashfsDigest);
    }
    EXPECT_EQ(digests.size(), 1U);
}

TEST_F(TreeWriterTest, EveryCompressorMakesATreeOfManyFiles) {
    TarWriter tar;
    for (std::size_t i = 0; i < 3000; ++i) {
        tar.file(numbered(cat("d", i % 30, "/"), i), cat(i % 50));
    }
    const auto expected = test::namesOf(convert(tar));
    for (const auto* options :
         {"-comp gzip", "-comp xz -exports", "-comp lz4", "-comp zstd", "-comp gzip -Xcompression-level 1"}) {
        const auto tree = convert(tar, options);
        EXPECT_TRUE(test::namesOf(tree) == expected) << options;
        EXPECT_EQ(tree.at("d29/0002999").content, "49") << options;
    }
}

}  // namespace
}  // namespace sarus::image::build::tree_writer_test
