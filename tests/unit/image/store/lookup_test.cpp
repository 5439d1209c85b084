#include "image/store/lookup.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "image/scratch.hpp"
#include "image/squashfs_text.hpp"
#include "image/store/index.hpp"
#include "image/store/repository_paths.hpp"

namespace sarus::image::lookup_test {
namespace {

class LookupTest : public testing::Test {
protected:
    std::string put(const std::string& reference, const std::string& squashfs, const std::string& metadata) {
        const auto key = parseReference(reference).uniqueKey();
        scratch.write(cat("images/", key, ".meta"), metadata);
        return scratch.write(cat("images/", key, ".squashfs"), squashfs);
    }

    FoundImage find(const std::string& reference) {
        return findImage(scratch.path(), parseReference(reference).normalized());
    }

    std::string failure(const std::string& reference) {
        try {
            find(reference);
        } catch (const Error& error) {
            return error.what();
        }
        return "found";
    }

    static std::string metadataOf(const std::string& command, std::uint64_t size) {
        return serializeStoredMetadata({{command}, {}, "", {}, {}}, {"", "", "", size});
    }

    test::Scratch scratch;
};

TEST_F(LookupTest, opensTheImageWithoutAnIndex) {
    const auto path = put("quay.io/a/b:t", "content", R"({"Cmd":["sh"],"WorkingDir":"/w"})");
    const auto found = find("quay.io/a/b:t");
    EXPECT_EQ(found.path, path);
    EXPECT_EQ(readAll(found.file.get(), 100, "image"), "content");
    EXPECT_EQ(found.metadata.cmd, std::vector<std::string>{"sh"});
    EXPECT_EQ(found.metadata.workingDir, "/w");
}

TEST_F(LookupTest, digestDecidesIfThereIsOne) {
    const std::string digest = "sha256:" + std::string(64, 'a');
    put("quay.io/a/b@" + digest, "by digest", "{}");
    put("quay.io/a/b:t", "by tag", "{}");
    EXPECT_EQ(readAll(find("quay.io/a/b:t@" + digest).file.get(), 100, "image"), "by digest");
}

TEST_F(LookupTest, missingImageIsNotAvailable) {
    put("quay.io/a/b:t", "content", "{}");
    EXPECT_EQ(failure("quay.io/a/b:other"), "Image quay.io/a/b:other is not available");
    ::unlink(scratch.path("images/quay.io/a/b/t.meta").c_str());
    EXPECT_EQ(failure("quay.io/a/b:t"), "Image quay.io/a/b:t is not available");
}

TEST_F(LookupTest, dockerHubImagesAreAlsoLookedForUnderTheLegacyServerName) {
    put("index.docker.io/library/a:t", "content", "{}");
    testing::internal::CaptureStderr();
    const auto found = find("a:t");
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "Image docker.io/library/a:t is not available. Attempting to look for equivalent image in "
              "index.docker.io server "
              "repositories\n");
    EXPECT_EQ(found.reference.full(), "index.docker.io/library/a:t");
}

TEST_F(LookupTest, dockerHubImageWhichIsNowhereIsNotAvailable) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(failure("a:t"), "Image index.docker.io/library/a:t is not available");
    EXPECT_EQ(testing::internal::GetCapturedStderr().find("Image docker.io/library/a:t is not available. "),
              0U);
}

TEST_F(LookupTest, emptyFilesAndFifosAreRefused) {
    put("quay.io/a/b:t", "", "{}");
    EXPECT_NE(failure("quay.io/a/b:t").find("is empty"), std::string::npos);
    const auto path = scratch.path("images/quay.io/a/b/t.squashfs");
    ::unlink(path.c_str());
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_NE(failure("quay.io/a/b:t").find("is not a regular file"), std::string::npos);
}

TEST_F(LookupTest, damagedMetadataNamesItsFile) {
    put("quay.io/a/b:t", "content", "{");
    EXPECT_NE(failure("quay.io/a/b:t").find("t.meta"), std::string::npos);
}

TEST_F(LookupTest, betweenTheTwoRenamesOfAPublicationTheNewMetadataIsUsed) {
    put("quay.io/a/b:t", "new image", metadataOf("old", 3));
    scratch.write("images/quay.io/a/b/t.meta-abcdefghijklmnop", metadataOf("new", 9));
    EXPECT_EQ(find("quay.io/a/b:t").metadata.cmd, std::vector<std::string>{"new"});
}

TEST_F(LookupTest, filesOfOneSizeAreToldApartByTheirIdentity) {
    put("quay.io/a/b:t", test::squashfs("2222", "data"), test::metadataFor("1111", "", "old"));
    EXPECT_EQ(failure("quay.io/a/b:t"), "The files of image quay.io/a/b:t do not belong together");
    scratch.write("images/quay.io/a/b/t.meta-abcdefghijklmnop", test::metadataFor("2222", "", "new"));
    EXPECT_EQ(find("quay.io/a/b:t").metadata.cmd, std::vector<std::string>{"new"});
}

TEST_F(LookupTest, newImageWhoseMetadataStillHaveAnotherNameIsFound) {
    put("quay.io/a/b:t", test::squashfs("2222", "data"), "");
    ::unlink(scratch.path("images/quay.io/a/b/t.meta").c_str());
    scratch.write("images/quay.io/a/b/t.meta-abcdefghijklmnop", test::metadataFor("2222", "", "new"));
    EXPECT_EQ(find("quay.io/a/b:t").metadata.cmd, std::vector<std::string>{"new"});
}

TEST_F(LookupTest, metadataWhichRecordNoIdentityAreThoseOfAnyFileUnlessThereAreBetterOnes) {
    put("quay.io/a/b:t", test::squashfs("2222", "data"), R"({"Cmd":["of 1.7"]})");
    EXPECT_EQ(find("quay.io/a/b:t").metadata.cmd, std::vector<std::string>{"of 1.7"});
    scratch.write("images/quay.io/a/b/t.meta-abcdefghijklmnop", test::metadataFor("2222", "", "new"));
    EXPECT_EQ(find("quay.io/a/b:t").metadata.cmd, std::vector<std::string>{"new"});
}

TEST_F(LookupTest, filesThatDoNotBelongTogetherAreRefused) {
    put("quay.io/a/b:t", "new image", metadataOf("old", 3));
    scratch.write("images/quay.io/a/b/t.meta-abcdefghijklmnop", metadataOf("other", 4));
    EXPECT_EQ(failure("quay.io/a/b:t"), "The files of image quay.io/a/b:t do not belong together");
}

}  // namespace
}  // namespace sarus::image::lookup_test
