#include "base/passwd_file.hpp"

#include <gmock/gmock.h>

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

TEST(Passwd, TheFirstCompleteEntryOfTheUserCounts) {
    const auto* const text = "a:x:10:10::/a\nb:x:10:10::/b:/bin/b\nc:x:10:10::/c:/bin/c\n";
    const auto entry = findPasswdEntry(text, 10);
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->name + entry->home + entry->shell, "b/b/bin/b");
    EXPECT_FALSE(findPasswdEntry(text, 11));
}

TEST(Passwd, ShellsThatDoNotExistBecomeSh) {
    const auto exists = [](const std::string& path) { return path == "/bin/bash"; };
    EXPECT_EQ(replaceMissingShells("a:x:1:1::/:/bin/bash\nb:x:2:2::/:\nno entry\n", exists), std::nullopt);
    EXPECT_EQ(replaceMissingShells("a:x:1:1::/:/bin/zsh\n+::::::\nb:x:2:2::/:/bin/bash", exists),
              "a:x:1:1::/:/bin/sh\n+::::::\nb:x:2:2::/:/bin/bash");
}

TEST(Passwd, HomeOfTheFirstEntryIsReplaced) {
    EXPECT_EQ(replaceHome("\na:x:10:10::/a:/sh\n+::::::\nb:x:11:11::/b:/sh\nc:x:11:11::/c:/sh", 11, "/new"),
              "\na:x:10:10::/a:/sh\n+::::::\nb:x:11:11::/new:/sh\nc:x:11:11::/c:/sh");
    EXPECT_EQ(replaceHome("a:x:10:10::/a:/sh\n", 10, "/a"), std::nullopt);
    EXPECT_EQ(replaceHome("a:x:10:10::/a:/sh\n", 12, "/a"), std::nullopt);
}

}  // namespace
}  // namespace sarus::passwd_file_test
