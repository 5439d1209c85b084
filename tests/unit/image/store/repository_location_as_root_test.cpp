#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.hpp"
#include "image/scratch.hpp"
#include "image/store/repository_location.hpp"

namespace sarus::image::repository_location_as_root_test {
namespace {

TEST(LocalRepositoryAsRoot, ofSomebodyElseIsRefused) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs root, to make directories of other users";
    }
    const test::Scratch scratch;
    scratch.write("etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    const RepositorySettings settings{scratch.path("base"), std::nullopt, scratch.path()};
    createDirectories(scratch.path("base/root/.sarus"));
    EXPECT_NO_THROW(localRepositoryDirectory(settings));
    ASSERT_EQ(::chown(scratch.path("base/root/.sarus").c_str(), 12345, 12345), 0);
    EXPECT_THROW(localRepositoryDirectory(settings), Error);
    ASSERT_EQ(::chown(scratch.path("base/root/.sarus").c_str(), 0, 0), 0);
    ASSERT_EQ(::chown(scratch.path("base/root").c_str(), 12345, 12345), 0);
    EXPECT_THROW(localRepositoryDirectory(settings), Error);
}

TEST(ChosenRepositoryAsRoot, ofSomebodyElseIsRefused) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "needs root, to make directories of other users";
    }
    const test::Scratch scratch;
    createDirectories(scratch.path("base/mine/images"));
    createDirectories(scratch.path("other"));
    const auto choose = [&](const char* path) { chosenRepositoryDirectory(scratch.path(path), "KEY"); };
    EXPECT_NO_THROW(choose("base/mine/images"));
    ASSERT_EQ(::chown(scratch.path("base/mine").c_str(), 12345, 12345), 0);
    EXPECT_THROW(choose("base/mine/images"), Error);
    EXPECT_THROW(choose("base/mine"), Error);
    EXPECT_THROW(choose("base/mine/new"), Error);
    // Somebody may own a directory higher up, such as that of a project, unless everybody could have made it.
    createDirectories(scratch.path("base/mine/images/here"));
    EXPECT_NO_THROW(choose("base/mine/images/here"));
    ASSERT_EQ(::chmod(scratch.path("base").c_str(), 01777), 0);
    EXPECT_THROW(choose("base/mine/images/here"), Error);
    EXPECT_THROW(choose("base/mine/new/here"), Error);
    // A link of one's own to another user's directory, and another user's link to one's own directory.
    ASSERT_EQ(::symlink("base/mine", scratch.path("link").c_str()), 0);
    EXPECT_THROW(choose("link"), Error);
    EXPECT_THROW(choose("link/images"), Error);
    ASSERT_EQ(::symlink("other", scratch.path("theirs").c_str()), 0);
    EXPECT_NO_THROW(choose("theirs"));
    ASSERT_EQ(::lchown(scratch.path("theirs").c_str(), 12345, 12345), 0);
    EXPECT_THROW(choose("theirs"), Error);
    EXPECT_THROW(choose("theirs/images"), Error);
}

}  // namespace
}  // namespace sarus::image::repository_location_as_root_test
