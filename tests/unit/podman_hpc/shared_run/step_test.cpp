#include "podman_hpc/shared_run/step.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "podman_hpc/surroundings.hpp"

namespace sarus::podman_hpc::step_test {
namespace {

Step find(const std::map<std::string, std::string>& variables) {
    const auto from = test::surroundings(variables);
    return findStep(loadSettings(from), from, [](const auto&, const auto&) { return 77; });
}

TEST(SharedRunStep, TheCountIsThatOfTheNode) {
    EXPECT_EQ(countOfNode("3(x2),1", 0), 3U);
    EXPECT_EQ(countOfNode("3(x2),1", 1), 3U);
    EXPECT_EQ(countOfNode("3(x2),1", 2), 1U);
    EXPECT_EQ(countOfNode("3(x2),1", 3), std::nullopt);
    EXPECT_EQ(countOfNode("16", 0), 16U);
    for (const auto* text : {"", "3(x", "3(x2", "a", "3,,1", "-1", "3(xa)"}) {
        EXPECT_EQ(countOfNode(text, 1), std::nullopt) << text;
    }
}

TEST(SharedRunStep, VariablesGiveTheCount) {
    EXPECT_EQ(
        find({{"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}, {"SLURM_NODEID", "3"}}).tasks,
        1U);
    EXPECT_EQ(find({{"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NDOE", "5"}}).tasks, 5U);
    EXPECT_EQ(find({{"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "n=7;"}}).tasks, 7U);
    EXPECT_EQ(find({{"SLURM_LOCALID", "0"}}).tasks, 1U);
    EXPECT_EQ(find({{"SLURM_STEP_TASKS_PER_NODE", "4"}}).tasks, 1U) << "without a number, a task is alone";
    EXPECT_EQ(find({{"L", "0"},
                    {"T", "tasks=8/9"},
                    {"PODMANHPC_LOCALID_VAR", "L"},
                    {"PODMANHPC_TASKS_PER_NODE_VAR", "T"},
                    {"PODMANHPC_NTASKS_PATTERN", "[0-9]+$"}})
                  .tasks,
              9U);
}

TEST(SharedRunStep, SlurmNumbersItsSteps) {
    const std::map<std::string, std::string> slurm{
        {"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "3"}, {"SLURM_NODEID", "1"}, {"SLURM_LOCALID", "0"}};
    EXPECT_EQ(find(slurm).identity, "job-12.3-0-1");
    auto restarted = slurm;
    restarted["SLURM_RESTART_COUNT"] = "2";
    EXPECT_EQ(find(restarted).identity, "job-12.3-2-1");
    auto hostile = slurm;
    hostile["SLURM_JOB_ID"] = "../12";
    EXPECT_EQ(find(hostile).identity, "pid-77");
}

TEST(SharedRunStep, OtherLaunchersAreKnownByTheirProcess) {
    EXPECT_EQ(find({{"SLURM_LOCALID", "0"}}).identity, "pid-77");
    EXPECT_EQ(find({{"SLURM_JOB_ID", "12"},
                    {"SLURM_STEP_ID", "3"},
                    {"PODMANHPC_LOCALID_VAR", "OMPI_COMM_WORLD_LOCAL_RANK"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}})
                  .identity,
              "pid-77")
        << "mpirun within a step";
    EXPECT_EQ(launcherOfThisProcess("SARUS_TEST_UNSET", "0"), ::getppid());
}

}  // namespace
}  // namespace sarus::podman_hpc::step_test
