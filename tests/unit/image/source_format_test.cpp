#include "image/source_format.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/subprocess.hpp"
#include "scratch.hpp"

namespace sarus::image {

namespace {

class SourceFormatTest : public testing::Test {
protected:
    std::string tar(const std::vector<std::string>& members, const std::string& option = "-cf") {
        std::vector<std::string> args{"tar", "-C", scratch.path("content"), option, scratch.path("archive")};
        for (const auto& member : members) {
            scratch.write("content/" + member, std::string(3000, 'x'));
            args.push_back(member);
        }
        EXPECT_TRUE(runAndCapture({.path = "/bin/tar", .args = args}).status.ok());
        return scratch.path("archive");
    }

    static std::string transport(const std::string& path) { return transportOf(path, path); }

    static std::string failure(const std::string& path) {
        try {
            transportOf(path, path);
        } catch (const Error& error) {
            return error.what();
        }
        return "accepted";
    }

    test::Scratch scratch;
};

}  // namespace

TEST_F(SourceFormatTest, archiveOfDockerSave) {
    EXPECT_EQ(transport(tar({"abc/layer.tar", "abc.json", "manifest.json", "repositories"})), "docker-archive");
}

TEST_F(SourceFormatTest, archiveOfDockerSaveWithBothKinds) {
    EXPECT_EQ(transport(tar({"oci-layout", "index.json", "blobs/sha256/abc", "manifest.json"})), "docker-archive");
}

TEST_F(SourceFormatTest, ociArchive) {
    EXPECT_EQ(transport(tar({"blobs/sha256/abc", "./oci-layout", "index.json"})), "oci-archive");
}

TEST_F(SourceFormatTest, compressedArchiveIsRecognised) {
    EXPECT_EQ(decompressorOf(tar({"manifest.json", "a/b"}, "-czf")), "gzip");
    EXPECT_EQ(decompressorOf(tar({"manifest.json", "a/b"}, "-cjf")), "bzip2");
    EXPECT_EQ(decompressorOf(tar({"manifest.json", "a/b"}, "-cJf")), "xz");
    EXPECT_EQ(decompressorOf(scratch.write("zstd", "\x28\xb5\x2f\xfd and more")), "zstd");
    EXPECT_EQ(decompressorOf(tar({"manifest.json", "a/b"})), std::nullopt);
    EXPECT_EQ(decompressorOf(scratch.write("empty", "")), std::nullopt);
}

TEST_F(SourceFormatTest, ociLayoutDirectory) {
    scratch.write("layout/oci-layout", "{}");
    EXPECT_EQ(transport(scratch.path("layout")), "oci");
}

TEST_F(SourceFormatTest, sifFile) {
    auto sif = std::string(1024, '\0');
    sif.replace(32, 9, "SIF_MAGIC");
    EXPECT_EQ(transport(scratch.write("image.sif", sif)), "sif");
}

TEST_F(SourceFormatTest, whatIsNoImageIsNamed) {
    EXPECT_EQ(failure(scratch.path("missing")), cat("Failed to open ", scratch.path("missing"), ": No such file or directory"));
    EXPECT_NE(failure(scratch.write("text", std::string(5000, 'x'))).find("is no image archive"), std::string::npos);
    EXPECT_NE(failure(scratch.write("empty", "")).find("is empty"), std::string::npos);
    EXPECT_NE(failure(scratch.path()).find("is no OCI image layout"), std::string::npos);
    EXPECT_NE(failure(tar({"some/file"})).find("neither manifest.json nor oci-layout"), std::string::npos);
    EXPECT_NE(failure("/dev/null").find("not a regular file"), std::string::npos);
}

TEST_F(SourceFormatTest, archiveThatIsCutOffIsRefused) {
    const auto archive = tar({"abc/layer.tar", "manifest.json"});
    ASSERT_EQ(::truncate(archive.c_str(), 2000), 0);
    EXPECT_NE(failure(archive).find("neither manifest.json nor oci-layout"), std::string::npos);
}

TEST_F(SourceFormatTest, absurdSizesEndTheSearch) {
    auto archive = readFile(tar({"a", "manifest.json"}));
    archive.replace(124, 12, std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12));
    EXPECT_NE(failure(scratch.write("absurd", archive)), "accepted");
}

}  // namespace sarus::image
