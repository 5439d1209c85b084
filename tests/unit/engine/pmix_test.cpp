#include "engine/pmix.hpp"

#include <gmock/gmock.h>

namespace sarus::engine::pmix_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PmixDirectories, AreThoseThatTheServersVariablesName) {
    const Environment host{{"PMIX_SERVER_TMPDIR", "/tmp/prte.node/"},
                           {"PMIX_DSTORE_21_BASE_PATH", "/run/store21"},
                           {"PMIX_DSTORE_ESH_BASE_PATH", "/run/store12"},
                           {"PMIX_GDS_SHMEM2_JOB_SEG_PATH", "/run/job/segment.1"},
                           {"PMIX_GDS_SHMEM2_SESSION_SEG_PATH", "/dev/shm/session/segment.1"},
                           {"PMIX_SYSTEM_TMPDIR", "/tmp"},
                           {"PMIX_SERVER_URI4", "server;tcp4://127.0.0.1:4000"},
                           {"OTHER_SEG_PATH", "/other/file"}};
    EXPECT_THAT(pmixDirectories(host),
                ElementsAre("/run/store21", "/run/store12", "/run/job", "/tmp/prte.node"));
}

TEST(PmixDirectories, AreMountedOnceEach) {
    EXPECT_THAT(pmixDirectories({{"PMIX_DSTORE_21_BASE_PATH", "/tmp/ompi/pid.7/store"},
                                 {"PMIX_SERVER_TMPDIR", "/tmp/ompi/pid.7"}}),
                ElementsAre("/tmp/ompi/pid.7"));
    EXPECT_THAT(pmixDirectories({{"PMIX_DSTORE_21_BASE_PATH", "/a"}, {"PMIX_SERVER_TMPDIR", "/a/b"}}),
                ElementsAre("/a"));
}

TEST(PmixDirectories, RelativePathsAreNone) {
    EXPECT_THAT(pmixDirectories({{"PMIX_SERVER_TMPDIR", "tmp"}, {"PMIX_DSTORE_21_BASE_PATH", ""}}),
                IsEmpty());
}

TEST(SlurmPmix, StepsOfAllPmixPluginsCount) {
    Environment host{{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "3"}};
    EXPECT_FALSE(isSlurmPmixStep(host));
    for (const auto* type : {"pmix", "pmix_v3", "pmix_v4", "pmix_v5"}) {
        host["SLURM_MPI_TYPE"] = type;
        EXPECT_TRUE(isSlurmPmixStep(host)) << type;
    }
    host["SLURM_MPI_TYPE"] = "pmi2";
    EXPECT_FALSE(isSlurmPmixStep(host));
    host["SLURM_MPI_TYPE"] = "pmix";
    host["SLURM_STEP_ID"] = "../..";
    EXPECT_FALSE(isSlurmPmixStep(host));
}

TEST(SlurmPmix, DirectoriesOfServerAndClients) {
    const Environment host{{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "3"}, {"SLURM_JOB_UID", "1000"}};
    EXPECT_THAT(
        slurmPmixDirectories(host, {}),
        ElementsAre("/var/spool/slurmd/pmix.12.3", "/tmp/spmix_appdir_12.3", "/tmp/spmix_appdir_1000_12.3"));
}

TEST(SlurmPmix, DirectoriesOfTheStepAreKnownByTheirNames) {
    const Environment host{{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "3"}, {"SLURM_JOB_UID", "1000"}};
    EXPECT_THAT(directoriesOfSlurmStep({"/home/u", "/spool/pmix.12.3", "/x/pmix.12.3", "/tmp/pmix.12.30",
                                        "/tmp/spmix_appdir_1000_12.3"},
                                       host),
                ElementsAre("/spool/pmix.12.3", "/tmp/spmix_appdir_1000_12.3"));
}

}  // namespace
}  // namespace sarus::engine::pmix_test
