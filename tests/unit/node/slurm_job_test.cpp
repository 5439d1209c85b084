#include "node/slurm_job.hpp"

#include <gtest/gtest.h>

namespace sarus::node::slurm_job_test {
namespace {

TEST(SlurmJobMark, TakesNumbersAlone) {
    EXPECT_EQ(markSlurmJob("", "").id, "");
    EXPECT_EQ(markSlurmJob("../1", "").id, "");
    EXPECT_EQ(markSlurmJob("12345678901", "").id, "");
    const auto mark = markSlurmJob("4294967294", "1700000000");
    EXPECT_EQ(mark.id, "4294967294");
    EXPECT_EQ(mark.end, 1700000000);
    EXPECT_EQ(markSlurmJob("1", "soon").end, 0);
}

TEST(SlurmJobMark, TheDirectoryTellsOtherwiseTheTimeLimit) {
    EXPECT_FALSE(isOver({}, 1'000'000));
    EXPECT_FALSE(isOver({.id = "1"}, 1'000'000));
    EXPECT_FALSE(isOver({.id = "1", .end = 1000}, 1000 + 3600));
    EXPECT_TRUE(isOver({.id = "1", .end = 1000}, 1000 + 3601));
    EXPECT_FALSE(isOver({.id = "1", .directory = "/", .end = 1000}, 1'000'000));
    EXPECT_TRUE(isOver({.id = "1", .directory = "/nonexistent", .end = 2'000'000}, 1'000'000));
}

}  // namespace
}  // namespace sarus::node::slurm_job_test
