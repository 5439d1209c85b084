#include "starter/supervise/memory_watch.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::starter::memory_watch_test {
namespace {

constexpr std::uint64_t mebibyte = 1U << 20U;

TEST(MemoryWatchTest, KillIsExplainedWithLimitPeakAndFiles) {
    EXPECT_EQ(explainMemory({.cgroup = "/sys/fs/cgroup/job",
                             .limit = 100 * mebibyte,
                             .peak = 99 * mebibyte,
                             .files = 20 * mebibyte}),
              "Out of memory: the kernel killed a process of the container. The limit is 100.00MB (104857600 "
              "bytes in /sys/fs/cgroup/job), the peak was 99.00MB, files in memory take 20.00MB");
    EXPECT_EQ(explainMemory({.cgroup = "/c", .limit = 100 * mebibyte, .files = 60 * mebibyte}),
              "Out of memory: the kernel killed a process of the container. The limit is 100.00MB (104857600 "
              "bytes in /c), files in memory take 60.00MB: write large files to a mounted directory");
    EXPECT_EQ(explainMemory({}),
              "Out of memory: the kernel killed a process of the container. The job has no limit, but the "
              "node's memory was full");
}

/// A job's cgroup below the user's, of version 1.
class MemoryWatchOfVersion1 : public ::testing::Test {
protected:
    MemoryWatchOfVersion1() {
        for (const auto& path : {job, user}) {
            createDirectories(path);
            write(path, "memory.limit_in_bytes", "1048576");
            set(path, 0, 0);
        }
        write(user, "memory.limit_in_bytes", "524288");
    }

    static void write(const std::string& path, const std::string& name, const std::string& text) {
        writeAll(openFile(path + "/" + name, O_WRONLY | O_CREAT | O_TRUNC, 0644).get(), text, name);
    }
    static void set(const std::string& path, int hits, int kills) {
        write(path, "memory.failcnt", std::to_string(hits));
        write(path, "memory.oom_control", "oom_kill " + std::to_string(kills) + "\n");
    }
    MemoryWatch watch() const {
        std::vector<node::MemoryCgroup> cgroups;
        for (const auto& path : {job, user}) {
            cgroups.emplace_back(openFile(path, O_PATH | O_DIRECTORY), path);
        }
        return MemoryWatch(std::move(cgroups));
    }

    test::TemporaryDirectory directory;
    std::string job = directory / "job";
    std::string user = directory / "user";
};

TEST_F(MemoryWatchOfVersion1, TheLimitThatWasReachedIsNamed) {
    const auto memory = watch();
    set(job, 1, 1);
    EXPECT_NE(memory.explain(false, 0).find("1048576 bytes in " + job), std::string::npos);
}

TEST_F(MemoryWatchOfVersion1, OtherwiseTheLowestOneIsNamed) {
    const auto memory = watch();
    set(job, 0, 1);
    EXPECT_NE(memory.explain(false, 0).find("524288 bytes in " + user), std::string::npos);
}

TEST_F(MemoryWatchOfVersion1, LimitThatWasReachedIsNoReasonWithoutAKill) {
    set(job, 0, 1);
    const auto memory = watch();
    set(job, 7, 1);
    EXPECT_EQ(memory.explain(false, 0), "");
}

TEST_F(MemoryWatchOfVersion1, KillWhoseCountIsGoneIsRecognisedByTheLimit) {
    const auto memory = watch();
    EXPECT_EQ(memory.explain(true, 0), "");
    set(job, 1, 0);
    EXPECT_NE(memory.explain(true, 0), "");
}

TEST(MemoryWatchTest, NothingIsNoticedWithoutACgroup) {
    EXPECT_EQ(MemoryWatch({}).explain(true, 0), "");
}

}  // namespace
}  // namespace sarus::starter::memory_watch_test
