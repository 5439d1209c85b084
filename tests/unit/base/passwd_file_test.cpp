#include "base/passwd_file.hpp"

#include <gtest/gtest.h>

namespace sarus::passwd_file_test {
namespace {

TEST(FindUserName, IsTheFirstEntryWithTheUid) {
    constexpr const char* passwd =
        "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbob:x:1000:1:::\n";
    EXPECT_EQ(findUserName(passwd, 1000), "alice");
    EXPECT_EQ(findUserName(passwd, 0), "root");
    EXPECT_EQ(findUserName(passwd, 100), std::nullopt);
}

TEST(FindUserName, MustBeUsableAsADirectory) {
    EXPECT_EQ(findUserName("../etc:x:1:1::/:\n..:x:1:1::/:\n.:x:1:1::/:\n:x:1:1::/:\nfine:x:1:1::/:", 1),
              "fine");
    EXPECT_EQ(findUserName("short:x:1\n", 1), std::nullopt);
}

}  // namespace
}  // namespace sarus::passwd_file_test
