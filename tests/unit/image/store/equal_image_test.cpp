#include "image/store/equal_image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "image/scratch.hpp"
#include "image/store/file_digest.hpp"
#include "image/store/link_image.hpp"

namespace sarus::image::equal_image_test {
namespace {

using testing::HasSubstr;

const BuildRecord usual{"", "1000:100", "2.0.0", "zstd 1.5.4"};

class EqualImageTest : public testing::Test {
protected:
    EqualImageTest() { store(source, info("layers")); }

    StoreInfo info(const std::string& layersId) {
        const auto file = openFile(scratch.write("content", "squashfs"), O_RDONLY);
        return {.registryDigest = "sha256:1",
                .id = "1f",
                .squashfsDigest = fsverityDigestOfFile(file.get(), "content"),
                .squashfsSize = 8,
                .build = usual,
                .layersId = layersId};
    }

    void store(const ImageReference& reference, const StoreInfo& stored) {
        const auto suffix = randomLetters();
        writeAll(openFile(repository.draftOf(reference, suffix), O_WRONLY | O_CREAT, 0644).get(), "squashfs",
                 "draft");
        repository.publish({reference, suffix, {{"sh"}, {}, "/w", {}, {}}, stored});
    }

    std::string find(const ImageContent& content, const BuildRecord& build = usual) {
        const auto found = findEqualImage(
            repository, content, [&] { return build; }, [](const ImageReference&) {});
        return found ? found->reference.full() : "none";
    }

    std::string file() { return repository.paths().squashfs(source); }
    std::string metadata() { return repository.paths().metadata(source); }

    const test::Scratch scratch;
    const ImageReference source = parseReference("a:1");
    const std::string name = source.full();
    Repository repository{scratch.path("r"), RepositoryAccess::write, {2000, 1000}};
};

TEST_F(EqualImageTest, WhatDecidesTheContentFindsIt) {
    EXPECT_EQ(find({.layersId = "layers"}), name);
    EXPECT_EQ(find({.id = "1f"}), name);
    EXPECT_EQ(find({.registryDigest = "sha256:1"}), name);
    EXPECT_EQ(find({.layersId = "other", .id = "1f"}), name);
    EXPECT_EQ(find({.layersId = "other", .id = "2f", .registryDigest = "sha256:2"}), "none");
}

TEST_F(EqualImageTest, WhatIsUnknownIsNotEqual) {
    auto unknown = info("");
    unknown.id.clear();
    unknown.registryDigest.clear();
    store(source, unknown);
    EXPECT_EQ(find({}), "none");
    EXPECT_EQ(find({.layersId = "layers"}), "none");
}

TEST_F(EqualImageTest, OtherParametersMakeAnotherFile) {
    const ImageContent content{.layersId = "layers"};
    EXPECT_EQ(find(content, {"-comp gzip", "1000:100", "2.0.0", "zstd 1.5.4"}), "none");
    EXPECT_EQ(find(content, {"", "1000:0", "2.0.0", "zstd 1.5.4"}), "none");
    EXPECT_EQ(find(content, {"", "1000:100", "2.0.1", "zstd 1.5.4"}), "none");
    EXPECT_EQ(find(content, {"", "1000:100", "2.0.0", "zstd 1.5.5"}), "none");
}

TEST_F(EqualImageTest, AFileOfPodmanHpcIsTakenAgain) {
    auto taken = info("layers");
    taken.build->compressor = "zstd";
    store(source, taken);
    EXPECT_EQ(find({.layersId = "layers"}), name);
    EXPECT_EQ(find({.layersId = "layers"}, {"", "1000:100", "2.0.0", "zstdx 1"}), "none");
}

TEST_F(EqualImageTest, ADamagedFileIsNotUsedAgainButAnIntactOneIs) {
    writeAll(openFile(file(), O_WRONLY).get(), "SQUASHFS", "file");
    testing::internal::CaptureStderr();
    EXPECT_EQ(find({.layersId = "layers"}), "none");
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(cat(name, " is damaged")));
    store(parseReference("b:1"), info("layers"));
    testing::internal::CaptureStderr();
    EXPECT_EQ(find({.layersId = "layers"}), "docker.io/library/b:1");
    testing::internal::GetCapturedStderr();
}

TEST_F(EqualImageTest, WhatSarus17StoredIsNotUsedAgain) {
    scratch.write(metadata().substr(scratch.path().size() + 1), R"({"Cmd":["sh"]})");
    EXPECT_EQ(find({.layersId = "layers"}), "none");
    EXPECT_EQ(find({.id = "1f"}), "none");
}

TEST_F(EqualImageTest, AFileThatOthersCanWriteIsNotUsedAgain) {
    ::chmod(file().c_str(), 0664);
    EXPECT_EQ(find({.layersId = "layers"}), "none");
    ::chmod(file().c_str(), 0646);
    EXPECT_EQ(find({.layersId = "layers"}), "none");
}

TEST_F(EqualImageTest, OddFilesInTheRepositoryHideNoOtherImage) {
    store(parseReference("b:1"), info("layers"));
    ::unlink(metadata().c_str());
    ::mkfifo(metadata().c_str(), 0600);
    EXPECT_EQ(find({.layersId = "layers"}), "docker.io/library/b:1");
    ::unlink(file().c_str());
    ::symlink("/dev/zero", file().c_str());
    EXPECT_EQ(find({.layersId = "layers"}), "docker.io/library/b:1");
}

TEST_F(EqualImageTest, AFileThatCannotBeLinkedIsCopied) {
    const auto target = parseReference("b:1");
    const auto unnamed = openFile(scratch.write("r/unnamed", "squashfs"), O_RDONLY);
    ::unlink(scratch.path("r/unnamed").c_str());
    publishLink(repository, unnamed.get(), {target, randomLetters(), {}, info("layers")});
    EXPECT_EQ(readFile(repository.paths().squashfs(target)), "squashfs");
    EXPECT_EQ(find({.layersId = "layers"}), name);
}

TEST_F(EqualImageTest, AFailedPublicationLeavesNothing) {
    const auto target = parseReference("example.org/b:1");
    const auto open = openFile(file(), O_RDONLY);
    createDirectories(repository.paths().squashfs(target));
    EXPECT_THROW(publishLink(repository, open.get(), {target, randomLetters(), {}, info("layers")}), Error);
    struct stat status {};
    ASSERT_EQ(::stat(file().c_str(), &status), 0);
    EXPECT_EQ(status.st_nlink, 1U);
}

}  // namespace
}  // namespace sarus::image::equal_image_test
