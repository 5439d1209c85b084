#include "starter/container_record.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::starter {
namespace {

using testing::ElementsAre;

const ContainerRecord sample{.image = "a:1", .command = {"sh", "-c", "x"}, .environment = {"A=1", "B=\n\""}, .workdir = "/w"};

TEST(ContainerRecord, IsReadWhileItsContainerLives) {
    const test::TemporaryDirectory directory;
    const auto file = RecordFile::create(directory.path(), "n", sample);
    const auto record = readRecord(directory.path(), "n");
    ASSERT_TRUE(record);
    EXPECT_EQ(record->image, "a:1");
    EXPECT_THAT(record->command, ElementsAre("sh", "-c", "x"));
    EXPECT_THAT(record->environment, ElementsAre("A=1", "B=\n\""));
    EXPECT_EQ(record->workdir, "/w");
    struct stat status {};
    ASSERT_EQ(::stat(cat(directory.path(), "/.n.json").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST(ContainerRecord, GoesWithItsOwner) {
    const test::TemporaryDirectory directory;
    { const auto file = RecordFile::create(directory.path(), "n", sample); }
    EXPECT_FALSE(readRecord(directory.path(), "n"));
    EXPECT_FALSE(pathExists(cat(directory.path(), "/.n.json")));
}

TEST(ContainerRecord, OfAKilledStarterIsNoContainerAndIsTakenOver) {
    const test::TemporaryDirectory directory;
    writeAll(openFile(cat(directory.path(), "/.n.json"), O_WRONLY | O_CREAT, 0600).get(), "longer than the new one {}", "stale");
    EXPECT_FALSE(readRecord(directory.path(), "n"));
    const auto file = RecordFile::create(directory.path(), "n", sample);
    EXPECT_TRUE(readRecord(directory.path(), "n"));
}

TEST(ContainerRecord, ReservesTheName) {
    const test::TemporaryDirectory directory;
    const auto file = RecordFile::create(directory.path(), "n", sample);
    EXPECT_THROW(RecordFile::create(directory.path(), "n", sample), Error);
    EXPECT_TRUE(readRecord(directory.path(), "n"));
}

TEST(ContainerRecord, IsNeverWrittenThroughALink) {
    const test::TemporaryDirectory directory;
    ASSERT_EQ(::symlink("/dev/null", cat(directory.path(), "/.n.json").c_str()), 0);
    EXPECT_THROW(RecordFile::create(directory.path(), "n", sample), Error);
}

}  // namespace
}  // namespace sarus::starter
