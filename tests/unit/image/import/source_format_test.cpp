#include "image/import/source_format.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "image/scratch.hpp"

namespace sarus::image::source_format_test {
namespace {

class SourceFormatTest : public testing::Test {
protected:
    std::string tar(const std::string& option) {
        scratch.write("content/member", std::string(3000, 'x'));
        const std::vector<std::string> args{
            "tar", "-C", scratch.path("content"), option, scratch.path("archive"), "member"};
        EXPECT_TRUE(runAndCapture({.path = "/bin/tar", .args = args}).status.ok());
        return scratch.path("archive");
    }

    static std::optional<std::string> compression(const std::string& path) {
        return compressionOf(openFile(path, O_RDONLY).get());
    }

    test::Scratch scratch;
};

TEST_F(SourceFormatTest, compressedArchiveIsRecognised) {
    using namespace std::string_literals;
    EXPECT_EQ(compression(tar("-czf")), "gzip");
    EXPECT_EQ(compression(tar("-cjf")), "bzip2");
    EXPECT_EQ(compression(tar("-cJf")), "xz");
    EXPECT_EQ(compression(scratch.write("zstd", "\x28\xb5\x2f\xfd and more")), "zstd");
    EXPECT_EQ(compression(scratch.write("pzstd", "\x50\x2a\x4d\x18\x04\0\0\0"s)), "zstd");
    EXPECT_EQ(compression(tar("-cf")), std::nullopt);
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
