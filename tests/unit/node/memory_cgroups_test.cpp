#include "node/memory_cgroups.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <map>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::node::memory_cgroups_test {
namespace {

constexpr std::uint64_t mebibyte = 1U << 20U;

/// Cgroups as directories with files.
class MemoryCgroups : public ::testing::Test {
protected:
    MemoryCgroup make(const std::map<std::string, std::string>& files) {
        const auto path = directory / std::to_string(++count);
        createDirectories(path);
        for (const auto& [name, text] : files) {
            writeAll(openFile(path + "/" + name, O_WRONLY | O_CREAT, 0644).get(), text, name);
        }
        return {openFile(path, O_PATH | O_DIRECTORY), path};
    }

    std::vector<MemoryCgroup> chain(const std::vector<std::map<std::string, std::string>>& levels) {
        std::vector<MemoryCgroup> result;
        for (const auto& files : levels) {
            result.push_back(make(files));
        }
        return result;
    }

    test::TemporaryDirectory directory;
    int count = 0;
};

TEST_F(MemoryCgroups, OfVersion1AreRead) {
    const auto cgroup = make({{"memory.failcnt", "7\n"},
                              {"memory.limit_in_bytes", "104857600\n"},
                              {"memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"},
                              {"memory.max_usage_in_bytes", "104000000\n"},
                              {"memory.stat", "shmem 5\ntotal_shmem 4096\n"}});
    EXPECT_EQ(cgroup.limit(), 100 * mebibyte);
    EXPECT_EQ(cgroup.hardLimit(), 100 * mebibyte);
    EXPECT_EQ(cgroup.hits(), 7U);
    EXPECT_EQ(cgroup.kills(), 3U);
    EXPECT_EQ(cgroup.peak(), 104000000U);
    EXPECT_EQ(cgroup.files(), 4096U);
}

TEST_F(MemoryCgroups, OfVersion2AreRead) {
    const auto cgroup = make({{"memory.max", "104857600\n"},
                              {"memory.high", "94371840\n"},
                              {"memory.events", "low 0\nhigh 9\nmax 8\noom 2\noom_kill 1\n"},
                              {"memory.peak", "104000000\n"},
                              {"memory.stat", "anon 5\nshmem 4096\n"}});
    EXPECT_EQ(cgroup.limit(), 90 * mebibyte);
    EXPECT_EQ(cgroup.hardLimit(), 100 * mebibyte);
    EXPECT_EQ(cgroup.hits(), 2U);
    EXPECT_EQ(cgroup.kills(), 1U);
    EXPECT_EQ(cgroup.peak(), 104000000U);
    EXPECT_EQ(cgroup.files(), 4096U);
}

TEST_F(MemoryCgroups, WithoutALimit) {
    EXPECT_EQ(make({{"memory.max", "max\n"}, {"memory.high", "max\n"}}).limit(), std::nullopt);
    EXPECT_EQ(make({{"memory.failcnt", "0\n"}, {"memory.limit_in_bytes", "9223372036854771712\n"}}).limit(),
              std::nullopt);
    EXPECT_EQ(make({}).limit(), std::nullopt) << "the root of version 2";
    EXPECT_EQ(make({{"memory.max", "max\n"}, {"memory.high", "4096\n"}}).limit(), 4096U);
}

TEST_F(MemoryCgroups, TheLowestLimitOfAllLevelsCounts) {
    EXPECT_EQ(lowestMemoryLimit(chain({{{"memory.max", "max\n"}},
                                       {{"memory.max", "2097152\n"}},
                                       {{"memory.max", "max\n"}, {"memory.high", "1048576\n"}},
                                       {{"memory.max", "4194304\n"}}})),
              mebibyte);
    EXPECT_EQ(lowestMemoryLimit({}), std::nullopt);
    EXPECT_EQ(lowestMemoryLimit(chain({{{"memory.max", std::to_string(nodeMemory() * 2) + "\n"}}})),
              std::nullopt)
        << "the node has less";
}

TEST_F(MemoryCgroups, ChildrenHaveAHigherOomScoreWhateverTheLimit) {
    const int own = std::stoi(readFile("/proc/self/oom_score_adj"));
    for (const auto limit : {std::optional<std::uint64_t>(), std::optional(std::uint64_t{1} << 50U),
                             std::optional(std::uint64_t{200'000'000})}) {
        EXPECT_GT(raisedOomScore(limit), own);
    }
    EXPECT_EQ(raisedOomScore(1'280'000'000), std::min(own + 100, 1000));
    EXPECT_EQ(raisedOomScore(4096), 1000);
}

TEST(NumberOf, IsFoundByItsWholeKey) {
    constexpr auto text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
    EXPECT_EQ(numberOf(text, "oom_kill"), 3U);
    EXPECT_EQ(numberOf(text, "oom_kill_disable"), 0U);
    EXPECT_EQ(numberOf(text, "oom"), 0U);
    EXPECT_EQ(numberOf("", "oom_kill"), 0U);
    EXPECT_EQ(numberOf("oom_kill x", "oom_kill"), 0U);
}

}  // namespace
}  // namespace sarus::node::memory_cgroups_test
