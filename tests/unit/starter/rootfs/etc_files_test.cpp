#include "starter/rootfs/etc_files.hpp"

#include <gtest/gtest.h>

namespace sarus::starter::etc_files_test {
namespace {

TEST(PasswdEntry, IsAddedOnlyIfTheUidIsMissing) {
    EXPECT_EQ(withPasswdEntry("a:x:1:1::/:/bin/sh\n", 7, 8, {"alice", "users", "/home/alice"}),
              "a:x:1:1::/:/bin/sh\nalice:x:7:8::/home/alice:/bin/sh\n");
    EXPECT_EQ(withPasswdEntry("a:x:7:1::/:/bin/sh\n", 7, 8, {"alice", "users", "/"}), "a:x:7:1::/:/bin/sh\n");
    EXPECT_EQ(withPasswdEntry("a:x:70:7::/:/bin/sh", 7, 8, {"alice", "users", "/"}),
              "a:x:70:7::/:/bin/sh\nalice:x:7:8::/:/bin/sh\n");
}

TEST(PasswdEntry, ANameOrHomeThatWouldBreakTheFileIsReplaced) {
    EXPECT_EQ(withPasswdEntry("", 7, 8, {"root:x:0:0::/:/bin/sh\n", "", "/a:b"}), "user7:x:7:8::/:/bin/sh\n");
    EXPECT_EQ(withPasswdEntry("", 7, 8, {"", "", "relative"}), "user7:x:7:8::/:/bin/sh\n");
    EXPECT_EQ(withPasswdEntry("", 7, 8, {"-x", "", "/new\nline"}), "user7:x:7:8::/:/bin/sh\n");
}

TEST(GroupEntry, IsAddedOnlyIfTheGidIsMissing) {
    EXPECT_EQ(withGroupEntry("a:x:1:\n", 8, {"alice", "users", "/"}), "a:x:1:\nusers:x:8:\n");
    EXPECT_EQ(withGroupEntry("a:x:8:\n", 8, {"alice", "users", "/"}), "a:x:8:\n");
    EXPECT_EQ(withGroupEntry("", 8, {"alice", "us ers", "/"}), "group8:x:8:\n");
}

}  // namespace
}  // namespace sarus::starter::etc_files_test
