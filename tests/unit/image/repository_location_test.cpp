#include "image/repository_location.hpp"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include "base/error.hpp"
#include "scratch.hpp"

namespace sarus::image {

namespace {

const std::string callersName = ::getpwuid(::geteuid())->pw_name;

std::string passwdLine(const std::string& name, uid_t uid) {
    return cat(name, ":x:", uid, ":100::/home/x:/bin/sh\n");
}

}  // namespace

TEST(UserName, isThatOfTheFirstEntryWithTheUid) {
    const auto passwd = passwdLine("root", 0) + passwdLine("alice", 1000) + passwdLine("bob", 1000) + "broken\n::\n";
    EXPECT_EQ(userNameIn(passwd, 1000), "alice");
    EXPECT_EQ(userNameIn(passwd, 1001), std::nullopt);
    EXPECT_EQ(userNameIn("", 0), std::nullopt);
}

TEST(UserName, comesFromTheInstallationBeforeTheSystem) {
    const test::Scratch scratch;
    scratch.write("prefix/etc/passwd", passwdLine("cached", ::geteuid()));
    EXPECT_EQ(userName(scratch.path("prefix"), ::geteuid()), "cached");
    scratch.write("prefix/etc/passwd", passwdLine("other", ::geteuid() + 1));
    EXPECT_EQ(userName(scratch.path("prefix"), ::geteuid()), callersName);
    EXPECT_EQ(userName(scratch.path("missing"), ::geteuid()), callersName);
}

TEST(UserName, thatNobodyKnowsIsAnError) {
    const test::Scratch scratch;
    EXPECT_THROW(userName(scratch.path(), 3999999999U), Error);
}

TEST(UserName, cannotLeadElsewhere) {
    const test::Scratch scratch;
    for (const std::string name : {"..", ".", "", "a/../../etc"}) {
        scratch.write("etc/passwd", passwdLine(name, ::geteuid()));
        EXPECT_THROW(userName(scratch.path(), ::geteuid()), Error) << name;
    }
}

TEST(LocalRepository, isBelowTheUsersDirectory) {
    const test::Scratch scratch;
    scratch.write("etc/passwd", passwdLine("cached", ::geteuid()));
    EXPECT_EQ(localRepositoryDirectory({scratch.path("base"), std::nullopt, scratch.path()}), scratch.path("base/cached/.sarus"));
}

TEST(UserDirectory, isCreatedWithoutHelpWherePossible) {
    const test::Scratch scratch;
    ensureUserDirectory(scratch.path("base/user/.sarus"), "/nowhere/starter");
    EXPECT_TRUE(isDirectory(scratch.path("base/user")));
    EXPECT_FALSE(pathExists(scratch.path("base/user/.sarus")));
}

TEST(CentralizedRepository, mustBeConfigured) {
    EXPECT_EQ(centralizedRepositoryDirectory({"/home", "/central", "/prefix"}), "/central");
    EXPECT_THROW(centralizedRepositoryDirectory({"/home", std::nullopt, "/prefix"}), Error);
}

}  // namespace sarus::image
