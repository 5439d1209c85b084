#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.hpp"
#include "image/repository_location.hpp"
#include "scratch.hpp"

namespace sarus::image {

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

}  // namespace sarus::image
