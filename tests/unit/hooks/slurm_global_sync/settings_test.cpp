#include "hooks/slurm_global_sync/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"

namespace sarus::hooks::slurm_global_sync::settings_test {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;
const Variables complete{
    {"SLURM_JOB_ID", "7"}, {"SLURM_STEPID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "3"}};

std::optional<Part> partWith(const Variables& more, const std::string& without = "") {
    auto variables = complete;
    for (const auto& [name, value] : more) {
        variables[name] = value;
    }
    variables.erase(without);
    return findPart([&](std::string_view name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
}

std::string complaintAbout(Variables variables) {
    variables.try_emplace("HOOK_BASE_DIR", "/home");
    variables.try_emplace("PASSWD_FILE", "/etc/passwd");
    try {
        parseSettings(HookEnvironment(std::move(variables)));
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(SlurmSyncPart, IsThatOfTheVariables) {
    const auto part = partWith({{"SLURM_NODEID", "1"}});
    ASSERT_TRUE(part);
    EXPECT_EQ(part->step, (Step{"jobid-7-stepid-2", 4}));
    EXPECT_EQ(part->ranks, std::vector<Rank>{3});
    EXPECT_EQ(part->node, "1");
}

TEST(SlurmSyncPart, IsThatOfAllTasksOfTheNodeWithoutATask) {
    EXPECT_EQ(partWith({{"SLURM_GTIDS", "1,3"}})->ranks, std::vector<Rank>{3});
    EXPECT_EQ(partWith({{"SLURM_GTIDS", "1,3"}}, "SLURM_PROCID")->ranks, (std::vector<Rank>{1, 3}));
    EXPECT_THROW(partWith({{"SLURM_GTIDS", "1,4"}}, "SLURM_PROCID"), Error);
    EXPECT_THROW(partWith({{"SLURM_GTIDS", "1,x"}}, "SLURM_PROCID"), Error);
}

TEST(SlurmSyncPart, OfARequeuedJobIsAnother) {
    EXPECT_EQ(partWith({{"SLURM_RESTART_COUNT", "2"}})->step.name, "jobid-7-stepid-2-restart-2");
    EXPECT_EQ(partWith({{"SLURM_RESTART_COUNT", "0"}})->step.name, "jobid-7-stepid-2");
}

TEST(SlurmSyncPart, NeedsAllVariables) {
    for (const auto& [name, value] : complete) {
        EXPECT_FALSE(partWith({}, name)) << name;
    }
    EXPECT_EQ(partWith({{"SLURM_STEP_ID", "2"}}, "SLURM_STEPID")->step.name, "jobid-7-stepid-2");
}

TEST(SlurmSyncPart, WithOtherThanSlurmsValuesIsRefused) {
    EXPECT_THROW(partWith({{"SLURM_JOB_ID", "../7"}}), Error);
    EXPECT_THROW(partWith({{"SLURM_STEPID", "-1"}}), Error);
    EXPECT_THROW(partWith({{"SLURM_NTASKS", "4000000000"}}), Error);
    EXPECT_THROW(partWith({{"SLURM_PROCID", "4"}}), Error);
}

TEST(SlurmSyncSettings, NeedTheDocumentedVariables) {
    EXPECT_EQ(complaintAbout({}), "");
    EXPECT_THAT(complaintAbout({{"HOOK_BASE_DIR", ""}}), testing::HasSubstr("HOOK_BASE_DIR"));
    EXPECT_THAT(complaintAbout({{"PASSWD_FILE", "etc/passwd"}}), testing::HasSubstr("not an absolute path"));
}

TEST(SlurmSyncSettings, HaveATimeoutInSeconds) {
    EXPECT_EQ(complaintAbout({{"SLURM_GLOBAL_SYNC_TIMEOUT", "3600"}}), "");
    EXPECT_THAT(complaintAbout({{"SLURM_GLOBAL_SYNC_TIMEOUT", "0"}}), testing::HasSubstr("from 1 to 3600"));
    EXPECT_THAT(complaintAbout({{"SLURM_GLOBAL_SYNC_TIMEOUT", "1 h"}}), testing::HasSubstr("from 1 to 3600"));
}

}  // namespace
}  // namespace sarus::hooks::slurm_global_sync::settings_test
