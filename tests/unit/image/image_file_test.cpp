#include "image/image_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "scratch.hpp"

namespace sarus::image {
namespace {

TEST(ImageFile, BeginsAsNoReferenceCan) {
    for (const auto* path : {"/a.squashfs", "./a", "../a"}) {
        EXPECT_TRUE(isImageFile(path)) << path;
    }
    for (const auto* reference : {"a", "a/b:c", "a.squashfs", ".a", "", "..a/b", "/", "///"}) {
        EXPECT_FALSE(isImageFile(reference)) << reference;
    }
}

TEST(ImageFile, OnlyRegularSquashfsFilesAreOpened) {
    const test::Scratch scratch;
    EXPECT_TRUE(openImageFile(scratch.write("good", "hsqs...")));
    EXPECT_THROW(openImageFile(scratch.write("empty", "")), Error);
    EXPECT_THROW(openImageFile(scratch.write("short", "hsq")), Error);
    EXPECT_THROW(openImageFile(scratch.write("other", "sqsh...")), Error);
    EXPECT_THROW(openImageFile(scratch.path("missing")), Error);
    EXPECT_THROW(openImageFile(scratch.path()), Error);
    ASSERT_EQ(::mkfifo(scratch.path("fifo").c_str(), 0600), 0);
    EXPECT_THROW(openImageFile(scratch.path("fifo")), Error);  // and does not wait for a writer
}

}  // namespace
}  // namespace sarus::image
