#include "image/store/prune.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <chrono>
#include <future>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/scratch.hpp"
#include "image/store/import_session.hpp"
#include "image/store/pull_lock.hpp"

namespace sarus::image::prune_test {
namespace {

class PruneTest : public testing::Test {
protected:
    PruneTest() : repository(scratch.path("r"), RepositoryAccess::write, {}) {
        scratch.write("r/cache/blobs/sha256/aaaa", std::string(10000, 'x'));
        scratch.write("r/cache/blobs/sha256/bbbb", std::string(10000, 'x'));
        scratch.write("tmp/file", "");
    }

    test::Scratch scratch;
    Repository repository;
};

TEST_F(PruneTest, removesTheBlobsAndTellsTheirSize) {
    const auto result = pruneCache(repository, scratch.path("tmp"), false);
    EXPECT_EQ(result.files, 2U);
    EXPECT_GE(result.bytes, 20000U);
    EXPECT_FALSE(pathExists(scratch.path("r/cache/blobs/sha256/aaaa")));
    EXPECT_EQ(pruneCache(repository, scratch.path("tmp"), false).files, 0U);
}

TEST_F(PruneTest, dryRunOnlyCounts) {
    EXPECT_EQ(pruneCache(repository, scratch.path("tmp"), true).files, 2U);
    EXPECT_TRUE(pathExists(scratch.path("r/cache/blobs/sha256/aaaa")));
}

TEST_F(PruneTest, isRefusedWhileAnImportNeedsTheBlobs) {
    const ImportSession session(repository.paths(), scratch.path("tmp"), {});
    EXPECT_THROW(pruneCache(repository, scratch.path("tmp"), false), Error);
    EXPECT_TRUE(pathExists(scratch.path("r/cache/blobs/sha256/aaaa")));
}

TEST_F(PruneTest, waitsForAnotherPrune) {
    const auto path = repository.paths().cacheLock();
    createDirectories(directoryOf(path));
    auto other = openFile(path, O_RDWR | O_CREAT, 0644);
    ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
    auto result =
        std::async(std::launch::async, [&] { return pruneCache(repository, scratch.path("tmp"), false); });
    EXPECT_EQ(result.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
    other.reset();
    EXPECT_EQ(result.get().files, 2U);
}

TEST_F(PruneTest, doesNothingWhileAnotherNodeImports) {
    scratch.write("r/cache/ociImages/image-anothernodesimpo/lock", "00000000-of-another-boot");
    EXPECT_THROW(pruneCache(repository, scratch.path("tmp"), false), Error);
}

TEST_F(PruneTest, leavesALockThatIsHeld) {
    const PullLock held(repository.paths(), "image", [] {});
    EXPECT_EQ(pruneCache(repository, scratch.path("tmp"), false).files, 2U);
    EXPECT_FALSE(Directory(repository.paths().pullLocks(), Missing::isError).next() == nullptr);
}

TEST_F(PruneTest, removesWhatKilledImportsLeft) {
    scratch.write("r/cache/ociImages/image-abcdefghijklmnop/lock", "");
    scratch.write("tmp/sarus-import-abcdefghijklmnop/spool", "");
    pruneCache(repository, scratch.path("tmp"), false);
    EXPECT_FALSE(pathExists(scratch.path("r/cache/ociImages/image-abcdefghijklmnop")));
    EXPECT_FALSE(pathExists(scratch.path("tmp/sarus-import-abcdefghijklmnop")));
}

TEST(PruneUnpackedImages, removesCopiesThatNobodyUses) {
    const test::Scratch scratch;
    const auto cache = cat("sarus-", ::geteuid(), "/unpacked/");
    for (const std::string name : {"unused", "used"}) {
        scratch.write(cat(cache, name, "/bin/sh"), "x");
        scratch.write(cat(cache, name, ".lock"), "");
    }
    scratch.write(cat(cache, "unused.partial/file"), "x");
    const auto user = openFile(scratch.path(cat(cache, "used.lock")), O_RDWR);
    ASSERT_EQ(tryLock(user.get(), LockMode::shared), LockResult::held);
    EXPECT_EQ(pruneUnpackedImages(scratch.path(), true), 1U);
    EXPECT_TRUE(pathExists(scratch.path(cat(cache, "unused/bin/sh"))));
    EXPECT_EQ(pruneUnpackedImages(scratch.path(), false), 1U);
    EXPECT_FALSE(pathExists(scratch.path(cat(cache, "unused"))));
    EXPECT_FALSE(pathExists(scratch.path(cat(cache, "unused.partial"))));
    EXPECT_FALSE(pathExists(scratch.path(cat(cache, "unused.lock"))));
    EXPECT_TRUE(pathExists(scratch.path(cat(cache, "used/bin/sh"))));
}

TEST(PruneUnpackedImages, doesNotFollowALinkInItsPlace) {
    const test::Scratch scratch;
    scratch.write("elsewhere/unpacked/image/file", "x");
    scratch.write("elsewhere/unpacked/image.lock", "");
    ASSERT_EQ(::symlink(scratch.path("elsewhere").c_str(), scratch.path(cat("sarus-", ::geteuid())).c_str()),
              0);
    EXPECT_EQ(pruneUnpackedImages(scratch.path(), false), 0U);
    EXPECT_TRUE(pathExists(scratch.path("elsewhere/unpacked/image/file")));
}

}  // namespace
}  // namespace sarus::image::prune_test
