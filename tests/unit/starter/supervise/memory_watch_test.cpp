#include "starter/supervise/memory_watch.hpp"

#include <gtest/gtest.h>

namespace sarus::starter::memory_watch_test {
namespace {

constexpr std::uint64_t mebibyte = 1U << 20U;

TEST(MemoryWatchTest, NumbersAreFoundByTheirWholeKey) {
    constexpr auto text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
    EXPECT_EQ(numberOf(text, "oom_kill"), 3U);
    EXPECT_EQ(numberOf(text, "oom_kill_disable"), 0U);
    EXPECT_EQ(numberOf(text, "oom"), 0U);
    EXPECT_EQ(numberOf("", "oom_kill"), 0U);
    EXPECT_EQ(numberOf("oom_kill x", "oom_kill"), 0U);
}

TEST(MemoryWatchTest, KillIsExplainedWithLimitAndPeak) {
    const MemoryUse before{.kills = 1};
    const MemoryUse after{.kills = 2, .hits = 5, .limit = 100 * mebibyte, .peak = 99 * mebibyte};
    EXPECT_EQ(
        explainMemory(before, after, false),
        "Out of memory: the kernel killed a process of the container. The job's limit is 100.00MB, its peak "
        "was 99.00MB");
}

TEST(MemoryWatchTest, KernelsWithoutPeakAndJobsWithoutLimit) {
    EXPECT_EQ(
        explainMemory({}, {.kills = 1}, false),
        "Out of memory: the kernel killed a process of the container. The job has no limit, but the node's "
        "memory was full");
}

TEST(MemoryWatchTest, LimitThatWasReachedIsNoReasonWithoutAKill) {
    EXPECT_EQ(explainMemory({.kills = 1}, {.kills = 1, .hits = 7, .limit = mebibyte}, false), "");
}

TEST(MemoryWatchTest, KillWhoseCountIsGoneIsRecognisedByTheLimit) {
    EXPECT_NE(explainMemory({.hits = 1}, {.hits = 2, .limit = mebibyte}, true), "");
    EXPECT_EQ(explainMemory({.hits = 2}, {.hits = 2, .limit = mebibyte}, true), "");
}

}  // namespace
}  // namespace sarus::starter::memory_watch_test
