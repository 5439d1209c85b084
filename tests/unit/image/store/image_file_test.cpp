#include "image/store/image_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <iterator>

#include "base/error.hpp"
#include "image/scratch.hpp"

namespace sarus::image::image_file_test {
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

TEST(ImageFile, AppearsWholeAndReplacesNothing) {
    const test::Scratch scratch;
    const auto image = openImageFile(scratch.write("image", "hsqs..."));
    const auto saved = scratch.path("saved/image");
    std::filesystem::create_directory(scratch.path("saved"));
    writeImageFile(image.get(), "{}", saved);
    EXPECT_EQ(embeddedMetadata(openImageFile(saved).get()), "{}");
    EXPECT_THROW(writeImageFile(image.get(), "[]", saved), Error);
    EXPECT_EQ(embeddedMetadata(openImageFile(saved).get()), "{}");
    const auto other = scratch.path("saved/other");
    EXPECT_THROW(writeImageFile(image.get(), std::string(largestMetadata + 1, ' '), other), Error);
    std::filesystem::create_symlink("nowhere", other);
    EXPECT_THROW(writeImageFile(image.get(), "{}", other), Error);
    EXPECT_FALSE(std::filesystem::exists(other));
    const auto files = std::filesystem::directory_iterator(scratch.path("saved"));
    EXPECT_EQ(std::distance(begin(files), end(files)), 2);  // no temporary file is left
}

}  // namespace
}  // namespace sarus::image::image_file_test
