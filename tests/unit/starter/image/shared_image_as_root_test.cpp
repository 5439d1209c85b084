#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <chrono>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mounts.hpp"
#include "base/text.hpp"
#include "starter/image/shared_image.hpp"
#include "starter/starter_sandbox.hpp"

namespace sarus::starter::shared_image_as_root_test {
namespace {

using namespace sarus::test;
using std::chrono::milliseconds;

TEST(SharedImage, NobodyWaitsLongerForAServerThanTheDeadline) {
    inMountNamespace([] {
        mountFilesystem("tmpfs", "/mnt", "tmpfs", 0);
        EXPECT_TRUE(answersInTime("/mnt", milliseconds(10'000)));
        EXPECT_FALSE(answersInTime("/mnt/missing", milliseconds(10'000)));
        auto silent = openFile("/dev/fuse", O_RDWR);
        ASSERT_EQ(::mount("silent", "/mnt", "fuse", MS_RDONLY,
                          cat("fd=", silent.get(), ",rootmode=40000,user_id=0,group_id=0").c_str()),
                  0);
        EXPECT_FALSE(answersInTime("/mnt", milliseconds(50)));
        silent.reset();  // the server has ended
        EXPECT_FALSE(answersInTime("/mnt", milliseconds(10'000)));
    });
}

}  // namespace
}  // namespace sarus::starter::shared_image_as_root_test
