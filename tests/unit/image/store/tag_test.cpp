#include "image/store/tag.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "image/scratch.hpp"

namespace sarus::image::tag_test {
namespace {

using testing::ElementsAre;

class TagTest : public testing::Test {
protected:
    TagTest() {
        createDirectories(scratch.path("tmp"));
        const auto suffix = randomLetters();
        writeAll(openFile(repository.draftOf(source, suffix), O_WRONLY | O_CREAT, 0644).get(), "squashfs",
                 "draft");
        repository.publish({source, suffix, {{"sh"}, {}, "/w", {}, {}}, {"", "1f", "sha256:2", 8}});
    }

    void tag(const std::string& target) {
        tagImage(repository, scratch.path("tmp"), source, parseReference(target).normalized());
    }

    struct stat fileOf(const ImageReference& reference) {
        struct stat status {};
        checkErrno(::stat(repository.paths().squashfs(reference).c_str(), &status), "stat");
        return status;
    }

    std::vector<std::string> names() {
        std::vector<std::string> result;
        for (const auto& record : repository.list()) {
            result.push_back(record.reference.full());
        }
        return result;
    }

    const test::Scratch scratch;
    const ImageReference source = parseReference("a:1");
    Repository repository{scratch.path("r"), RepositoryAccess::write, {2000, 1000}};
};

TEST_F(TagTest, BothNamesShareOneFileAndTheMetadata) {
    tag("example.org/b:2");
    EXPECT_THAT(names(), ElementsAre("docker.io/library/a:1", "example.org/b:2"));
    const auto target = parseReference("example.org/b:2");
    EXPECT_EQ(fileOf(source).st_ino, fileOf(target).st_ino);
    EXPECT_EQ(readFile(repository.paths().metadata(source)), readFile(repository.paths().metadata(target)));
    EXPECT_EQ(repository.find(target)->id, "1f");
}

TEST_F(TagTest, TheOtherNameSurvivesTheRemovalOfOne) {
    tag("b:2");
    ASSERT_TRUE(repository.remove(source));
    EXPECT_THAT(names(), ElementsAre("docker.io/library/b:2"));
    EXPECT_EQ(readFile(repository.paths().squashfs(parseReference("b:2"))), "squashfs");
}

TEST_F(TagTest, RepeatingItLeavesNothingBehind) {
    tag("b:2");
    tag("b:2");
    tag("a:1");
    EXPECT_THAT(names(), ElementsAre("docker.io/library/a:1", "docker.io/library/b:2"));
    EXPECT_EQ(fileOf(source).st_nlink, 2U);
}

TEST_F(TagTest, ADigestIsNoTarget) {
    EXPECT_THROW(tag("b@sha256:" + std::string(64, 'd')), Error);
    EXPECT_THAT(names(), ElementsAre("docker.io/library/a:1"));
}

TEST_F(TagTest, AnImageOfSarus17GetsItsIndexEntry) {
    scratch.write(cat("r/images/", source.uniqueKey(), ".meta"), R"({"Cmd":["sh"]})");
    tag("b:2");
    const auto record = repository.find(parseReference("b:2"));
    ASSERT_TRUE(record);
    EXPECT_EQ(record->id, "1f");
    EXPECT_EQ(record->size, "8.00B");
}

}  // namespace
}  // namespace sarus::image::tag_test
