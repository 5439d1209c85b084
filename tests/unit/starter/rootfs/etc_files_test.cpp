#include "starter/rootfs/etc_files.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sarus::starter::etc_files_test {
namespace {

using Keys = std::vector<std::string>;

/// A name service with this answer.
NameService answering(const std::string& answer, Keys* asked = nullptr) {
    return [=](const std::string& database, const Keys& keys) {
        if (asked != nullptr) {
            *asked = keys;
            asked->insert(asked->begin(), database);
        }
        return answer;
    };
}

std::string passwdWith(const std::string& answer, const std::string& home = "/home/alice") {
    return withPasswdEntry("a:x:70:7::/:/bin/sh", 7, 8, home, answering(answer));
}

TEST(PasswdEntry, IsTheNameServicesForAMissingUid) {
    Keys asked;
    EXPECT_EQ(withPasswdEntry("a:x:1:1::/:/bin/sh\n", 7, 8, "/",
                              answering("alice:*:7:9:A:/home/alice:/bin/zsh\n", &asked)),
              "a:x:1:1::/:/bin/sh\nalice:*:7:9:A:/home/alice:/bin/zsh\n");
    EXPECT_EQ(asked, (Keys{"passwd", "7"}));
    asked.clear();
    EXPECT_EQ(withPasswdEntry("a:x:7:1::/:/bin/sh\n", 7, 8, "/", answering("", &asked)),
              "a:x:7:1::/:/bin/sh\n");
    EXPECT_EQ(asked, Keys{}) << "a known account needs no name service";
    for (const auto* name :
         {"DOMAIN\\user", "user@example.org", "First.Last", "two words", "Ärztin", "-x", "1001"}) {
        const auto line = std::string(name) + ":*:7:8:::/bin/sh\n";
        EXPECT_EQ(passwdWith(line), "a:x:70:7::/:/bin/sh\n" + line);
    }
}

TEST(PasswdEntry, WithoutAnAnswerIsMadeFromTheUidAndHome) {
    const std::string made = "a:x:70:7::/:/bin/sh\nuser7:x:7:8::/home/alice:/bin/sh\n";
    for (const auto* answer : {"", "\n", "alice", "alice:*:8:8::/:/bin/sh", "alice:*:7:8::/",
                               ":*:7:8::/:/bin/sh", "a:b:*:7:8::/:/bin/sh", "alice:*:7\n:8::/:/bin/sh"}) {
        EXPECT_EQ(passwdWith(answer), made) << answer;
    }
    for (const auto* home : {"/a:b", "relative", "/new\nline", ""}) {
        EXPECT_EQ(withPasswdEntry("", 7, 8, home, answering("")), "user7:x:7:8::/:/bin/sh\n");
    }
}

TEST(GroupEntries, AreTheNameServicesForMissingGids) {
    Keys asked;
    EXPECT_EQ(withGroupEntries("a:x:1:\n", {8, 1, 9, 10},
                               answering("DOMAIN\\domain users:*:9:alice,bob\nusers:*:8:\n", &asked)),
              "a:x:1:\nDOMAIN\\domain users:*:9:alice,bob\nusers:*:8:\n");
    EXPECT_EQ(asked, (Keys{"group", "8", "9", "10"}));
    EXPECT_EQ(withGroupEntries("a:x:8:\n", {8}, answering("b:*:8:\n")), "a:x:8:\n");
    EXPECT_EQ(withGroupEntries("", {8, 9}, answering("root:*:0:alice\nx:*:9:\ny:*:9:\nz:*:9\n")),
              "x:*:9:\ngroup8:x:8:\n");
}

}  // namespace
}  // namespace sarus::starter::etc_files_test
