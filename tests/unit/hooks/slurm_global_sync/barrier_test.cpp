#include "hooks/slurm_global_sync/barrier.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hooks/slurm_global_sync/memory_files.hpp"

namespace sarus::hooks::slurm_global_sync::barrier_test {
namespace {

using State = Barrier::State;
const Step step{"jobid-7-stepid-0", 2};

struct TwoNodes {
    MemoryFiles files;
    Barrier first{files, step};
    Barrier second{files, step};
};

void arriveBoth(TwoNodes& nodes) {
    EXPECT_TRUE(nodes.first.open(nodes.files.now) && nodes.second.open(nodes.files.now));
    nodes.first.arrive(0);
    nodes.second.arrive(1);
    EXPECT_EQ(nodes.first.count(), State::complete);
}

TEST(SlurmSyncBarrier, IsCompleteWhenAllTasksHaveArrived) {
    TwoNodes nodes;
    EXPECT_TRUE(nodes.first.open(nodes.files.now));
    nodes.first.arrive(0);
    EXPECT_EQ(nodes.first.count(), State::waiting);
    EXPECT_TRUE(nodes.second.open(nodes.files.now));
    nodes.second.arrive(1);
    EXPECT_EQ(nodes.second.look(), State::waiting);
    EXPECT_EQ(nodes.first.count(), State::complete);
    EXPECT_EQ(nodes.second.look(), State::complete);
}

TEST(SlurmSyncBarrier, LeavesNothingBehind) {
    TwoNodes nodes;
    arriveBoth(nodes);
    nodes.first.depart(0);
    nodes.first.leave();
    EXPECT_EQ(nodes.second.look(), State::complete);
    nodes.second.depart(1);
    nodes.second.leave();
    EXPECT_TRUE(nodes.files.isEmpty());
}

TEST(SlurmSyncBarrier, NextRoundOfTheStepWaitsUntilAllHaveLeft) {
    TwoNodes nodes;
    arriveBoth(nodes);
    nodes.first.depart(0);
    nodes.first.leave();
    EXPECT_FALSE(nodes.first.open(nodes.files.now));
    EXPECT_EQ(nodes.second.look(), State::complete);
    nodes.second.depart(1);
    nodes.second.leave();
    arriveBoth(nodes);
}

TEST(SlurmSyncBarrier, RoundThatWasKilledIsSwept) {
    TwoNodes nodes;
    arriveBoth(nodes);
    EXPECT_FALSE(nodes.first.open(nodes.files.now));
    nodes.first.sweep();
    EXPECT_TRUE(nodes.files.isEmpty());
    arriveBoth(nodes);
}

TEST(SlurmSyncBarrier, OwnFileThatWasLeftBehindIsNoError) {
    TwoNodes nodes;
    EXPECT_TRUE(nodes.first.open(nodes.files.now));
    nodes.first.arrive(0);
    arriveBoth(nodes);
}

TEST(SlurmSyncBarrier, DirectoryOfAJobWithTheSameNumberIsSwept) {
    TwoNodes nodes;
    EXPECT_TRUE(nodes.first.open(nodes.files.now));
    nodes.first.arrive(1);
    EXPECT_TRUE(nodes.first.open(nodes.files.now + std::chrono::hours(25)));
    nodes.first.arrive(0);
    EXPECT_EQ(nodes.first.count(), State::waiting);
}

TEST(SlurmSyncBarrier, NamesTheMissingTasksToAllNodes) {
    MemoryFiles files;
    Barrier first(files, {"jobid-7-stepid-0", 6});
    Barrier second(files, {"jobid-7-stepid-0", 6});
    EXPECT_TRUE(first.open(files.now));
    first.arrive(0);
    second.arrive(4);
    EXPECT_EQ(second.giveUp(std::chrono::seconds(9)), State::failed);
    EXPECT_EQ(second.failure(),
              "4 of the step's 6 tasks did not start their container within 9 s: ranks 1-3, 5");
    second.withdraw(4);
    second.leave();
    EXPECT_EQ(first.count(), State::failed);
    EXPECT_EQ(first.look(), State::failed);
    EXPECT_EQ(first.failure(), second.failure());
    first.withdraw(0);
    first.leave();
    EXPECT_TRUE(files.isEmpty());
}

TEST(SlurmSyncBarrier, NamesTheMissingTasksWhereAnotherNodeIsJustWritingThem) {
    MemoryFiles files;
    Barrier first(files, {"jobid-7-stepid-0", 3});
    EXPECT_TRUE(first.open(files.now));
    first.arrive(0);
    files.makeFile("jobid-7-stepid-0/failed", "");
    EXPECT_EQ(first.count(), State::waiting);
    EXPECT_EQ(first.giveUp(std::chrono::seconds(9)), State::failed);
    EXPECT_EQ(first.failure(), "2 of the step's 3 tasks did not start their container within 9 s: ranks 1-2");
}

TEST(SlurmSyncBarrier, IsCompleteWithoutTheNodeThatCounts) {
    TwoNodes nodes;
    EXPECT_TRUE(nodes.first.open(nodes.files.now));
    nodes.first.arrive(0);
    nodes.second.arrive(1);
    EXPECT_EQ(nodes.second.giveUp(std::chrono::seconds(9)), State::complete);
}

TEST(SlurmSyncBarrier, RemovesWhatOtherStepsHaveForgotten) {
    MemoryFiles files;
    Barrier old(files, {"jobid-6-stepid-0", 2});
    EXPECT_TRUE(old.open(files.now));
    old.arrive(0);
    Barrier barrier(files, step);
    barrier.removeForgotten(files.now);
    EXPECT_FALSE(files.isEmpty());
    barrier.removeForgotten(files.now + std::chrono::hours(25));
    EXPECT_TRUE(files.isEmpty());
}

TEST(SlurmSyncRanks, AreDescribedAsRanges) {
    EXPECT_EQ(describeRanks({3}), "3");
    EXPECT_EQ(describeRanks({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
    std::vector<Rank> even;
    for (Rank rank = 0; rank < 40; rank += 2) {
        even.push_back(rank);
    }
    EXPECT_EQ(describeRanks(even), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18 and 10 more");
}

}  // namespace
}  // namespace sarus::hooks::slurm_global_sync::barrier_test
