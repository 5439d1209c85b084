#include "image/store/repository_location.hpp"

#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "image/scratch.hpp"

namespace sarus::image::repository_location_test {
namespace {

const std::string callersName = ::getpwuid(::geteuid())->pw_name;

std::string passwdLine(const std::string& name, uid_t uid) {
    return cat(name, ":x:", uid, ":100::/home/x:/bin/sh\n");
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
        EXPECT_EQ(userName(scratch.path(), ::geteuid()), callersName) << name;
    }
}

TEST(LocalRepository, isBelowTheUsersDirectory) {
    const test::Scratch scratch;
    scratch.write("etc/passwd", passwdLine("cached", ::geteuid()));
    EXPECT_EQ(localRepositoryDirectory({scratch.path("base"), std::nullopt, scratch.path()}),
              scratch.path("base/cached/.sarus"));
}

TEST(ChosenRepository, isAnAbsolutePath) {
    const test::Scratch scratch;
    EXPECT_EQ(chosenRepositoryDirectory(scratch.path("a/b"), "KEY"), scratch.path("a/b"));
    EXPECT_EQ(chosenRepositoryDirectory(scratch.path("a/b//"), "KEY"), scratch.path("a/b"));
    for (const std::string path :
         {"", "relative", "./here", "/", "///", "/a/../b", "/a/./b", "/a/..", "/a\nb", "/a\tb", "~/images"}) {
        EXPECT_THROW(chosenRepositoryDirectory(path, "KEY"), Error) << path;
    }
}

TEST(ChosenRepository, isNotBelowWhatEverybodyCanChange) {
    const test::Scratch scratch;
    createDirectories(scratch.path("open/images"));
    ASSERT_EQ(::chmod(scratch.path("open").c_str(), 0777), 0);
    EXPECT_THROW(chosenRepositoryDirectory(scratch.path("open/images/far/below"), "KEY"), Error);
    EXPECT_THROW(chosenRepositoryDirectory(scratch.path("open/images"), "KEY"), Error);
    ASSERT_EQ(::chmod(scratch.path("open").c_str(), 01777), 0);
    EXPECT_EQ(chosenRepositoryDirectory(scratch.path("open/images"), "KEY"), scratch.path("open/images"));
    ASSERT_EQ(::chmod(scratch.path("open/images").c_str(), 0777), 0);
    EXPECT_THROW(chosenRepositoryDirectory(scratch.path("open/images"), "KEY"), Error);
}

TEST(ChosenRepository, isADirectory) {
    const test::Scratch scratch;
    scratch.write("file", "");
    EXPECT_THROW(chosenRepositoryDirectory(scratch.path("file"), "KEY"), Error);
    EXPECT_THROW(chosenRepositoryDirectory(scratch.path("file/images"), "KEY"), Error);
}

TEST(UserDirectory, isCreatedWithoutHelpWherePossible) {
    const test::Scratch scratch;
    EXPECT_TRUE(createUserDirectory(scratch.path("base/user/.sarus")));
    EXPECT_TRUE(isDirectory(scratch.path("base/user")));
    EXPECT_FALSE(pathExists(scratch.path("base/user/.sarus")));
}

TEST(CentralizedRepository, mustBeConfigured) {
    EXPECT_EQ(centralizedRepositoryDirectory({"/home", "/central", "/prefix"}), "/central");
    EXPECT_THROW(centralizedRepositoryDirectory({"/home", std::nullopt, "/prefix"}), Error);
}

}  // namespace
}  // namespace sarus::image::repository_location_test
