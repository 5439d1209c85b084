#include "podman_hpc/store/work_directory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::podman_hpc::work_directory_test {
namespace {

namespace fs = std::filesystem;

class WorkDirectories : public ::testing::Test {
protected:
    const test::TemporaryDirectory directory;
    std::string parent = directory / "work";
};

TEST_F(WorkDirectories, ThoseOfKilledProgramsAreRemoved) {
    createDirectories(parent + "/migrate-killed/download");
    createDirectories(parent + "/other");
    {
        const WorkDirectory one(parent);
        const WorkDirectory two(parent);
        EXPECT_TRUE(isDirectory(one.path()) && isDirectory(two.path()));
        EXPECT_FALSE(isDirectory(parent + "/migrate-killed"));
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(parent), {}), 1);
}

/// A program that has made its directory and not yet locked it must not lose it.
TEST_F(WorkDirectories, ManyAtOnceDoNotRemoveEachOthers) {
    std::vector<std::thread> programs;
    for (int program = 0; program < 8; ++program) {
        programs.emplace_back([this] {
            for (int round = 0; round < 100; ++round) {
                const WorkDirectory work(parent);
                ASSERT_TRUE(isDirectory(work.path()));
                createDirectories(work.path() + "/download");
            }
        });
    }
    for (auto& program : programs) {
        program.join();
    }
    EXPECT_TRUE(fs::is_empty(parent));
}

}  // namespace
}  // namespace sarus::podman_hpc::work_directory_test
