#include "image/listing.hpp"

#include <gtest/gtest.h>

#include "base/sha256.hpp"
#include "base/text.hpp"
#include "scratch.hpp"

namespace sarus::image {

namespace {

const std::string digest = "sha256:" + std::string(64, 'd');

ImageRecord record(const std::string& reference, const std::string& registryDigest = digest) {
    return {parseReference(reference).normalized(), registryDigest, "0123456789abcdef", "40.16MB", "2018-01-19T09:43:04"};
}

}  // namespace

TEST(ImageTable, hasOnlyTitlesWithoutImages) {
    EXPECT_EQ(formatImageTable({}, false), "REPOSITORY   TAG          IMAGE ID       CREATED      SIZE         SERVER\n");
}

TEST(ImageTable, columnsAreAsWideAsTheirLongestValueAndAtLeastTen) {
    EXPECT_EQ(formatImageTable({record("ethcscs/a-long-name:t"), record("alpine")}, false),
              "REPOSITORY            TAG          IMAGE ID       CREATED               SIZE         SERVER\n"
              "ethcscs/a-long-name   t            0123456789ab   2018-01-19T09:43:04   40.16MB      docker.io\n"
              "alpine                latest       0123456789ab   2018-01-19T09:43:04   40.16MB      docker.io\n");
}

TEST(ImageTable, digestColumnOnRequest) {
    const auto table = formatImageTable({record("a:t"), record("b:t", "")}, true);
    const auto lines = split(table, '\n');
    EXPECT_EQ(lines[0].find("REPOSITORY   TAG          DIGEST"), 0U);
    EXPECT_NE(lines[1].find(digest + "   0123456789ab"), std::string::npos);
    EXPECT_NE(lines[2].find("<none>"), std::string::npos);
}

TEST(ImageTable, repositoryIsShortForDockerHubOnly) {
    const auto table =
        formatImageTable({record("library/a"), record("ns/b"), record("quay.io/library/c"), record("srv.io/d")}, false);
    const auto lines = split(table, '\n');
    EXPECT_EQ(splitWords(lines[1])[0], "a");
    EXPECT_EQ(splitWords(lines[2])[0], "ns/b");
    EXPECT_EQ(splitWords(lines[3])[0], "quay.io/library/c");
    EXPECT_EQ(splitWords(lines[4])[0], "srv.io/d");
    EXPECT_EQ(splitWords(lines[3])[5], "quay.io");
}

TEST(ImageTable, whatIsMissingIsNone) {
    auto image = record("a@" + digest);
    image.id.clear();
    const auto words = splitWords(split(formatImageTable({image}, false), '\n')[1]);
    EXPECT_EQ(words[1], "<none>");
    EXPECT_EQ(words[2], "<none>");
}

TEST(VerifyImage, comparesWithTheRecordedDigest) {
    const test::Scratch scratch;
    const RepositoryPaths paths{scratch.path()};
    const auto reference = parseReference("a:t");
    scratch.write("images/docker.io/library/a/t.squashfs", "content");
    scratch.write("images/docker.io/library/a/t.meta",
                  serializeStoredMetadata({}, {"", "", "sha256:" + sha256Hex("content"), 7}));
    EXPECT_EQ(verifyImage(paths, reference), Integrity::intact);
    scratch.write("images/docker.io/library/a/t.squashfs", "contenT");
    EXPECT_EQ(verifyImage(paths, reference), Integrity::damaged);
    scratch.write("images/docker.io/library/a/t.meta", "{}");
    EXPECT_EQ(verifyImage(paths, reference), Integrity::unknown);
}

}  // namespace sarus::image
