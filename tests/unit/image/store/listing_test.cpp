#include "image/store/listing.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "image/scratch.hpp"

namespace sarus::image::listing_test {
namespace {

const std::string digest = "sha256:" + std::string(64, 'd');

ImageRecord record(const std::string& reference, const std::string& registryDigest = digest) {
    return {parseReference(reference).normalized(), registryDigest, "0123456789abcdef", "40.16MB",
            "2018-01-19T09:43:04"};
}

TEST(ImageTable, hasOnlyTitlesWithoutImages) {
    EXPECT_EQ(formatImageTable({}, false),
              "REPOSITORY   TAG          IMAGE ID       CREATED      SIZE         SERVER\n");
}

TEST(ImageTable, columnsAreAsWideAsTheirLongestValueAndAtLeastTen) {
    EXPECT_EQ(
        formatImageTable({record("ethcscs/a-long-name:t"), record("alpine")}, false),
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

TEST(ImageJson, KeysAreThoseOfTheManPage) {
    const test::Scratch scratch;
    const RepositoryPaths paths{scratch.path("r")};
    const auto tagged = parseReference("a:t");
    scratch.write(cat("r/images/", tagged.uniqueKey(), ".squashfs"), "12345");
    constexpr timespec stored{.tv_sec = 1'516'354'984, .tv_nsec = 0};  // the index is not asked
    const std::array<timespec, 2> times{stored, stored};
    ASSERT_EQ(::utimensat(AT_FDCWD, paths.squashfs(tagged).c_str(), times.data(), 0), 0);
    const auto missing = record("load/library/b@" + digest, "");
    EXPECT_EQ(
        formatImageJson(paths, {record("a:t"), {missing.reference, "", "", "", ""}}),
        cat(R"([{"reference":"docker.io/library/a:t","server":"docker.io","repository":"docker.io/library/a","tag":"t",)",
            R"("digest":")", digest,
            R"(","id":"0123456789abcdef","platform":null,"created":"2018-01-19T09:43:04Z","size":5,"path":")",
            paths.squashfs(tagged), R"("},)", R"({"reference":"load/library/b@)", digest,
            R"(","server":"load","repository":"load/library/b","tag":null,"digest":null,"id":null,)",
            R"("platform":null,"created":null,"size":null,"path":")", paths.squashfs(missing.reference),
            "\"}]\n"));
}

TEST(ImageJson, EmptyListIsAnArray) {
    EXPECT_EQ(formatImageJson({"/r"}, {}), "[]\n");
}

TEST(ImageInspection, ShowsWhatTheFilesOfAnImageSay) {
    const test::Scratch scratch;
    const RepositoryPaths paths{scratch.path("r")};
    const auto reference = parseReference("a:t");
    EXPECT_FALSE(inspectImage(paths, reference));
    scratch.write(cat("r/images/", reference.uniqueKey(), ".squashfs"), "12345");
    scratch.write(cat("r/images/", reference.uniqueKey(), ".meta"),
                  R"({"Cmd":["sh","-c","a b"],"Env":["A=1\u001b[2J"],"WorkingDir":"/w","Labels":{"k":"v"},)"
                  R"("Store":{"registryDigest":"","id":"1f","squashfsDigest":"sha256:2","squashfsSize":5}})");
    const auto details = inspectImage(paths, reference);
    ASSERT_TRUE(details);
    const auto text = formatImageDetails(*details);
    for (const auto* line :
         {"Image:          docker.io/library/a:t\n", "Image ID:       1f\n", "Size:           5.00B\n",
          "File digest:    sha256:2\n", "Command:        sh -c 'a b'\n", "Entrypoint:     -\n",
          "Environment:    A=1\\x1b[2J\n", "Label:          k=v\n"}) {
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    }
    const auto json = formatImageDetailsJson(*details);
    for (const auto* part :
         {R"({"kind":"image","reference":"docker.io/library/a:t")", R"("size":5)", R"("digest":null)",
          R"("squashfsDigest":"sha256:2")", R"("entrypoint":[])", R"("cmd":["sh","-c","a b"])",
          R"("workingDir":"/w")", R"("labels":{"k":"v"}})"}) {
        EXPECT_NE(json.find(part), std::string::npos) << part << json;
    }
}

TEST(ImageTable, repositoryIsShortForDockerHubOnly) {
    const auto table = formatImageTable(
        {record("library/a"), record("ns/b"), record("quay.io/library/c"), record("srv.io/d")}, false);
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

std::string numberedLines(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
        text += cat(i, '\n');
    }
    return text;
}

TEST(VerifyImage, comparesWithTheRecordedDigest) {
    const test::Scratch scratch;
    const RepositoryPaths paths{scratch.path()};
    const auto reference = parseReference("a:t");
    // What `fsverity digest` prints for files of more than one level of hashes, with an incomplete last
    // block.
    const auto content = numberedLines(200'000);
    scratch.write("images/docker.io/library/a/t.squashfs", content);
    scratch.write(
        "images/docker.io/library/a/t.meta",
        serializeStoredMetadata(
            {}, {"", "", "fsverity-sha256:97c5c2e1c67f0427dbccd690e0cf54b6459823ed9bd071674c8afa05994146a0",
                 content.size()}));
    EXPECT_EQ(verifyImage(paths, reference), Integrity::intact);
    for (const auto position : {std::size_t{0}, content.size() / 2, content.size() - 1}) {
        auto damaged = content;
        damaged[position] ^= 1;
        scratch.write("images/docker.io/library/a/t.squashfs", damaged);
        EXPECT_EQ(verifyImage(paths, reference), Integrity::damaged) << position;
    }
    scratch.write("images/docker.io/library/a/t.squashfs", content.substr(0, content.size() - 1));
    EXPECT_THROW(verifyImage(paths, reference), Error);  // it is not the file that the metadata were made for
    scratch.write("images/docker.io/library/a/t.meta", "{}");
    EXPECT_EQ(verifyImage(paths, reference), Integrity::unknown);
    scratch.write("images/docker.io/library/a/t.meta",
                  serializeStoredMetadata({}, {"", "", "md5:1", content.size() - 1}));
    EXPECT_EQ(verifyImage(paths, reference), Integrity::unknown);
}

TEST(VerifyImage, knowsThePlainDigestsOfEarlierVersions) {
    const test::Scratch scratch;
    const RepositoryPaths paths{scratch.path()};
    const auto reference = parseReference("a:t");
    scratch.write("images/docker.io/library/a/t.squashfs", "content");
    scratch.write("images/docker.io/library/a/t.meta",
                  serializeStoredMetadata({}, {"", "", "sha256:" + sha256Hex("content"), 7}));
    EXPECT_EQ(verifyImage(paths, reference), Integrity::intact);
    scratch.write("images/docker.io/library/a/t.squashfs", "contenT");
    EXPECT_EQ(verifyImage(paths, reference), Integrity::damaged);
}

}  // namespace
}  // namespace sarus::image::listing_test
