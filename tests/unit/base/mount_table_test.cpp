#include "base/mount_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sarus::mount_table_test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(MountTable, HasTheFieldsOfEachMount) {
    const auto mounts = parseMountTable(
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n");
    ASSERT_THAT(mounts, SizeIs(1));
    EXPECT_EQ(mounts[0].id, 36U);
    EXPECT_EQ(mounts[0].device, "98:0");
    EXPECT_EQ(mounts[0].root, "/mnt1");
    EXPECT_EQ(mounts[0].mountPoint, "/mnt2");
    EXPECT_EQ(mounts[0].options, "rw,noatime");
    EXPECT_EQ(mounts[0].type, "ext3");
    EXPECT_EQ(mounts[0].superOptions, "rw,errors=continue");
}

TEST(MountTable, NothingIsEscaped) {
    const auto mounts = parseMountTable(
        "1 0 0:1 / /a\\040b\\011c\\012d\\134e rw - tmpfs x rw\n2 0 0:1 / /end\\04 rw - tmpfs x rw\n");
    ASSERT_THAT(mounts, SizeIs(2));
    EXPECT_EQ(mounts[0].mountPoint, "/a b\tc\nd\\e");
    EXPECT_EQ(mounts[1].mountPoint, "/end\\04");
}

TEST(MountTable, WhiteSpaceThatTheKernelDoesNotEscapeSeparatesNothing) {
    const auto mounts =
        parseMountTable("1 0 0:1 /x\v/y\v-\vcgroup\vz\vdevices /a\r-\fb rw - tmpfs none rw\n");
    ASSERT_THAT(mounts, SizeIs(1));
    EXPECT_EQ(mounts[0].root, "/x\v/y\v-\vcgroup\vz\vdevices");
    EXPECT_EQ(mounts[0].mountPoint, "/a\r-\fb");
    EXPECT_EQ(mounts[0].type, "tmpfs");
}

TEST(MountTable, LinesOfAnotherFormAreLeftOut) {
    EXPECT_THAT(
        parseMountTable("\ngarbage\n1 2 3\n1 0 0:1 / / rw shared:1 tmpfs x rw\n1 0 0:1 / / rw - tmpfs\n"),
        IsEmpty());
}

TEST(MountTable, OfThisProcessBeginsAtTheRoot) {
    const auto mounts = readMountTable();
    EXPECT_TRUE(std::any_of(mounts.begin(), mounts.end(),
                            [](const MountEntry& mount) { return mount.mountPoint == "/"; }));
}

}  // namespace
}  // namespace sarus::mount_table_test
