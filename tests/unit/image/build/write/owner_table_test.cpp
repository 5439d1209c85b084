#include "image/build/write/owner_table.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build::owner_table_test {
namespace {

using Kind = OwnerSlot::Kind;

/// The bytes that write() adds to an empty file, and the superblock's fields.
std::string tableOf(const OwnerTable& owners, sqfs_super_t& super) {
    const test::LayoutWriter scratch;
    const auto path = scratch.scratch("table");
    const auto fd = openFile(path, O_RDWR | O_CREAT, 0600);
    squashfs::File file(fd.get(), path);
    owners.write(file, super);
    return readFile(path);
}

TEST(OwnerTable, EachIdOfTheLayersHasASlotAndUsersAreNotGroups) {
    OwnerTable owners({});
    EXPECT_EQ(owners.userSlot(0), 0);
    EXPECT_EQ(owners.groupSlot(0), 1);
    EXPECT_EQ(owners.userSlot(7), 2);
    EXPECT_EQ(owners.userSlot(0), 0);
    EXPECT_EQ(owners.groupSlot(7), 3);
    sqfs_super_t super{};
    EXPECT_EQ(tableOf(owners, super),
              std::string("\x10\x80\0\0\0\0\0\0\0\0\7\0\0\0\7\0\0\0\0\0\0\0\0\0\0\0", 26));
    EXPECT_EQ(super.id_count, 4);
    EXPECT_EQ(super.id_table_start, 18U);
}

TEST(OwnerTable, AForcedOwnerChangesValuesAndNotSlots) {
    OwnerTable owners({.uid = 1000, .gid = 100});
    EXPECT_EQ(owners.userSlot(0), 0);
    EXPECT_EQ(owners.groupSlot(0), 1);
    EXPECT_EQ(owners.userSlot(7), 2);
    sqfs_super_t super{};
    EXPECT_EQ(tableOf(owners, super).substr(0, 14),
              std::string("\x0C\x80\xE8\3\0\0\x64\0\0\0\xE8\3\0\0", 14));
    EXPECT_EQ(owners.all(), (std::vector<OwnerSlot>{{Kind::user, 0}, {Kind::group, 0}, {Kind::user, 7}}));
}

TEST(OwnerTable, ManyIdsTakeSeveralBlocks) {
    OwnerTable owners({});
    for (std::uint32_t id = 0; id < 4097; ++id) {
        owners.userSlot(id);
    }
    sqfs_super_t super{};
    const auto table = tableOf(owners, super);
    constexpr std::size_t block = 2 + 8192;
    EXPECT_EQ(super.id_table_start, 2 * block + 2 + 4);
    EXPECT_EQ(table.size(), super.id_table_start + 3 * 8);
    EXPECT_EQ(table.substr(block, 6), std::string("\0\xA0\0\x08\0\0", 6));
    EXPECT_EQ(table.substr(super.id_table_start + 8, 8), std::string("\x02\x20\0\0\0\0\0\0", 8));
}

TEST(OwnerTable, IdsThatFindNoSlotShareOneOnlyIfAllHaveOneOwner) {
    for (const bool forced : {false, true}) {
        OwnerTable owners(forced ? ForcedOwner{.uid = 1, .gid = 2} : ForcedOwner{});
        owners.userSlot(0);
        for (std::uint32_t id = 1; id < 0xFFFF; ++id) {
            owners.groupSlot(id);
        }
        EXPECT_TRUE(owners.isComplete());
        if (forced) {
            EXPECT_EQ(owners.userSlot(1), 0);
            EXPECT_EQ(owners.groupSlot(0xFFFF), 1);
            EXPECT_FALSE(owners.isComplete());
        } else {
            EXPECT_THROW(owners.userSlot(1), Error);
        }
    }
}

TEST(OwnerRecord, IsReadAsItWasWritten) {
    const OwnerRecord record{.layersId = std::string(64, 'a'),
                             .entries = 51307,
                             .slots = {{Kind::user, 0}, {Kind::group, 4294967295}, {Kind::user, 1000}}};
    const auto text = serialize(record);
    EXPECT_EQ(text, cat("sarus owners: ", record.layersId, " 51307 u0 g4294967295 u1000\n"));
    const auto read = parseOwnerRecord(text + std::string("\0\0 padding", 10));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->layersId, record.layersId);
    EXPECT_EQ(read->entries, 51307U);
    EXPECT_EQ(read->slots, record.slots);
}

TEST(OwnerRecord, DamagedOnesDoNotCount) {
    for (const std::string text :
         {"", "\n", "sarus owners: ", "sarus owners: a 1 u0", "sarus owners: a\n", "sarus owners: a -1 u0\n",
          "sarus owners: a 1 x0\n", "sarus owners: a 1 u\n", "sarus owners: a 1  u0\n",
          "sarus owners: a 1 u4294967296\n", "sarus Owners: a 1 u0\n"}) {
        EXPECT_FALSE(parseOwnerRecord(text)) << text;
    }
    std::string many = "sarus owners: a 1";
    for (int i = 0; i < 65536; ++i) {
        many += " u0";
    }
    EXPECT_FALSE(parseOwnerRecord(many + '\n'));
}

}  // namespace
}  // namespace sarus::image::build::owner_table_test
