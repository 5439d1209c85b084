#include "image/import/source_format.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/file_io.hpp"
#include "image/scratch.hpp"

namespace sarus::image::source_format_test {
namespace {

class SourceFormatTest : public testing::Test {
protected:
    static std::optional<std::string> compression(const std::string& path) {
        return compressionOf(openFile(path, O_RDONLY).get());
    }

    test::Scratch scratch;
};

TEST_F(SourceFormatTest, compressedArchiveIsRecognised) {
    using namespace std::string_literals;
    EXPECT_EQ(compression(scratch.write("gzip", "\x1f\x8b\x08 and more")), "gzip");
    EXPECT_EQ(compression(scratch.write("bzip2", "BZh91AY&SY and more")), "bzip2");
    EXPECT_EQ(compression(scratch.write("xz",
                                        "\xfd"
                                        "7zXZ\0 and more"s)),
              "xz");
    EXPECT_EQ(compression(scratch.write("zstd", "\x28\xb5\x2f\xfd and more")), "zstd");
    EXPECT_EQ(compression(scratch.write("pzstd", "\x50\x2a\x4d\x18\x04\0\0\0"s)), "zstd");
    EXPECT_EQ(compression(scratch.write("tar", "member\0 and more"s)), std::nullopt);
    EXPECT_EQ(compression(scratch.write("empty", "")), std::nullopt);
}

TEST_F(SourceFormatTest, sifFile) {
    auto sif = std::string(1024, '\0');
    sif.replace(32, 9, "SIF_MAGIC");
    EXPECT_TRUE(isSif(openFile(scratch.write("image.sif", sif), O_RDONLY).get()));
    EXPECT_FALSE(isSif(openFile(scratch.write("short", sif.substr(0, 40)), O_RDONLY).get()));
}

}  // namespace
}  // namespace sarus::image::source_format_test
