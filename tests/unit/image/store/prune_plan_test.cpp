#include "image/store/prune_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "image/scratch.hpp"
#include "image/store/prune.hpp"

namespace sarus::image::prune_plan_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::time_t now = 1'000'000'000;
constexpr std::time_t day = 86400;

ImageUsage image(const std::string& name, ino_t file, std::uint64_t bytes, std::time_t age,
                 std::uint64_t links = 1) {
    return {.reference = {"docker.io", "library", name, "1", ""},
            .path = cat("/r/images/", name, ".squashfs"),
            .file = {1, file},
            .links = links,
            .bytes = bytes,
            .lastUse = now - age};
}

BlobUsage blob(const std::string& name, std::uint64_t bytes, std::time_t age) {
    return {name, bytes, now - age};
}

std::vector<std::string> names(const PrunePlan& plan) {
    std::vector<std::string> all;
    for (const auto& one : plan.blobs) {
        all.push_back(one.path);
    }
    for (const auto& one : plan.images) {
        all.push_back(one.reference.image);
    }
    return all;
}

PruneLimits olderThan(std::time_t age) {
    PruneLimits limits;
    limits.olderThan = age;
    return limits;
}

PruneLimits keepBytes(std::uint64_t bytes) {
    PruneLimits limits;
    limits.keepBytes = bytes;
    return limits;
}

TEST(PrunePlan, TakesWhatIsOlderThanTheLimit) {
    const auto plan =
        planPrune({image("old", 1, 10, 31 * day), image("young", 2, 20, 29 * day)},
                  {blob("first", 1, 31 * day), blob("second", 2, day)}, olderThan(30 * day), {}, now);
    EXPECT_THAT(names(plan), ElementsAre("first", "old"));
    EXPECT_EQ(plan.bytes, 11U);
}

TEST(PrunePlan, CountsAnImageAsUsedUntilTheTimeIsKnown) {
    EXPECT_THAT(names(planPrune({image("a", 1, 10, day + useAccuracy - 1)}, {}, olderThan(day), {}, now)),
                IsEmpty());
    EXPECT_THAT(names(planPrune({image("a", 1, 10, day + useAccuracy)}, {}, olderThan(day), {}, now)),
                ElementsAre("a"));
}

TEST(PrunePlan, TakesDownloadsFirstThenTheLeastRecentlyUsedImages) {
    const std::vector<ImageUsage> images{image("third", 1, 100, day), image("first", 2, 100, 3 * day),
                                         image("second", 3, 100, 2 * day)};
    const std::vector<BlobUsage> blobs{blob("young", 50, day), blob("old", 50, 2 * day)};
    EXPECT_THAT(names(planPrune(images, blobs, keepBytes(400), {}, now)), IsEmpty());
    EXPECT_THAT(names(planPrune(images, blobs, keepBytes(399), {}, now)), ElementsAre("old"));
    EXPECT_THAT(names(planPrune(images, blobs, keepBytes(300), {}, now)), ElementsAre("old", "young"));
    EXPECT_THAT(names(planPrune(images, blobs, keepBytes(299), {}, now)),
                ElementsAre("old", "young", "first"));
    EXPECT_THAT(names(planPrune(images, blobs, keepBytes(0), {}, now)),
                ElementsAre("old", "young", "first", "second", "third"));
}

TEST(PrunePlan, LeavesWhatIsInUseOrRecent) {
    const std::vector<ImageUsage> images{image("used", 1, 100, 90 * day), image("path", 2, 100, 80 * day),
                                         image("recent", 3, 100, day / 2), image("other", 4, 100, 60 * day)};
    auto limits = keepBytes(0);
    limits.olderThan = 0;
    limits.recent = day;
    const auto plan =
        planPrune(images, {}, limits, {"docker.io/library/used:1", "/r/images/path.squashfs"}, now);
    EXPECT_THAT(names(plan), ElementsAre("other"));
}

TEST(PrunePlan, AFileGoesWithItsLastName) {
    const std::vector<ImageUsage> images{image("a", 1, 100, 90 * day, 2), image("b", 1, 100, day, 2),
                                         image("c", 2, 100, 2 * day)};
    // The two names count once, and were used a day ago.
    EXPECT_THAT(names(planPrune(images, {}, keepBytes(200), {}, now)), IsEmpty());
    EXPECT_THAT(names(planPrune(images, {}, keepBytes(100), {}, now)), ElementsAre("c"));
    const auto all = planPrune(images, {}, keepBytes(0), {}, now);
    EXPECT_THAT(names(all), ElementsAre("c", "a", "b"));
    EXPECT_EQ(all.bytes, 200U);
    const auto old = planPrune(images, {}, olderThan(30 * day), {}, now);
    EXPECT_THAT(names(old), ElementsAre("a"));
    EXPECT_EQ(old.bytes, 0U);
    // One name in use keeps the file.
    EXPECT_THAT(names(planPrune(images, {}, keepBytes(0), {"docker.io/library/a:1"}, now)), ElementsAre("c"));
}

TEST(PrunePlan, RemovingANameOfAFileThatHasOthersElsewhereSavesNothing) {
    const std::vector<ImageUsage> images{image("linked", 1, 100, 90 * day, 2), image("own", 2, 100, day)};
    EXPECT_THAT(names(planPrune(images, {}, keepBytes(50), {}, now)), ElementsAre("own"));
    const auto plan = planPrune(images, {}, olderThan(30 * day), {}, now);
    EXPECT_THAT(names(plan), ElementsAre("linked"));
    EXPECT_EQ(plan.bytes, 0U);
}

TEST(PrunePlan, BothLimitsHoldTogether) {
    auto limits = olderThan(30 * day);
    limits.keepBytes = 100;
    const auto plan = planPrune({image("old", 1, 100, 40 * day), image("b", 2, 100, 2 * day),
                                 image("c", 3, 100, day), image("old2", 1, 100, 50 * day, 1)},
                                {}, limits, {}, now);
    EXPECT_THAT(names(plan), ElementsAre("old", "old2", "b"));
}

class PruneToLimitsTest : public testing::Test {
protected:
    PruneToLimitsTest() : repository(scratch.path("r"), RepositoryAccess::write, {}) {
        scratch.write("r/cache/blobs/sha256/aaaa", std::string(10000, 'x'));
        scratch.write("tmp/file", "");
        for (const std::string name : {"old", "new"}) {
            scratch.write(cat("r/images/docker.io/library/", name, "/1.squashfs"),
                          std::string(10000, name[0]));
            scratch.write(cat("r/images/docker.io/library/", name, "/1.meta"), "{}");
        }
        const timespec past[2]{{now, 0}, {now, 0}};
        ::utimensat(AT_FDCWD, scratch.path("r/images/docker.io/library/old/1.meta").c_str(), past, 0);
    }

    std::optional<PrunePlan> prune(bool dryRun) {
        return pruneToLimits(repository, scratch.path("tmp"), olderThan(30 * day), {}, dryRun);
    }

    test::Scratch scratch;
    Repository repository;
};

TEST_F(PruneToLimitsTest, RemovesOldImagesWithTheirMetadata) {
    EXPECT_THAT(names(*prune(true)), ElementsAre("old"));
    EXPECT_TRUE(pathExists(scratch.path("r/images/docker.io/library/old/1.squashfs")));
    EXPECT_THAT(names(*prune(false)), ElementsAre("old"));
    EXPECT_FALSE(pathExists(scratch.path("r/images/docker.io/library/old")));
    EXPECT_TRUE(pathExists(scratch.path("r/images/docker.io/library/new/1.squashfs")));
    EXPECT_TRUE(pathExists(scratch.path("r/cache/blobs/sha256/aaaa")));
    EXPECT_THAT(names(*prune(false)), IsEmpty());
}

TEST_F(PruneToLimitsTest, AUseMakesAnImageYoung) {
    recordUse(repository.paths().squashfs({"docker.io", "library", "old", "1", ""}));
    EXPECT_THAT(names(*prune(false)), IsEmpty());
    const timespec past[2]{{now, 0}, {now, 0}};
    const auto mark = repository.paths().lastUse({"docker.io", "library", "old", "1", ""});
    ASSERT_EQ(::utimensat(AT_FDCWD, mark.c_str(), past, 0), 0);
    EXPECT_THAT(names(*prune(false)), ElementsAre("old"));
    EXPECT_FALSE(pathExists(scratch.path("r/images/docker.io/library/old")));
}

TEST_F(PruneToLimitsTest, DoesNothingWhileAnImportRuns) {
    const auto lock = openFile(repository.paths().cacheLock(), O_RDWR | O_CREAT, 0644);
    ASSERT_EQ(tryLock(lock.get(), LockMode::shared), LockResult::held);
    EXPECT_FALSE(prune(false));
    EXPECT_TRUE(prune(true));
    EXPECT_TRUE(pathExists(scratch.path("r/images/docker.io/library/old/1.squashfs")));
}

}  // namespace
}  // namespace sarus::image::prune_plan_test
