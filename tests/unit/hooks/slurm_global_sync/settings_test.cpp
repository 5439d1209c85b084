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

std::optional<Task> taskWith(const Variables& more, const std::string& without = "") {
    auto variables = complete;
    for (const auto& [name, value] : more) {
        variables[name] = value;
    }
    variables.erase(without);
    return findTask([&](std::string_view name) -> std::optional<std::string> {
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

TEST(SlurmSyncTask, IsThatOfTheVariables) {
    const auto task = taskWith({{"SLURM_NODEID", "1"}});
    ASSERT_TRUE(task);
    EXPECT_EQ(task->step, (Step{"jobid-7-stepid-2", 4}));
    EXPECT_EQ(task->rank, 3U);
    EXPECT_EQ(task->node, "1");
}

TEST(SlurmSyncTask, OfARequeuedJobIsAnother) {
    EXPECT_EQ(taskWith({{"SLURM_RESTART_COUNT", "2"}})->step.name, "jobid-7-stepid-2-restart-2");
    EXPECT_EQ(taskWith({{"SLURM_RESTART_COUNT", "0"}})->step.name, "jobid-7-stepid-2");
}

TEST(SlurmSyncTask, NeedsAllVariables) {
    for (const auto& [name, value] : complete) {
        EXPECT_FALSE(taskWith({}, name)) << name;
    }
    EXPECT_EQ(taskWith({{"SLURM_STEP_ID", "2"}}, "SLURM_STEPID")->step.name, "jobid-7-stepid-2");
}

TEST(SlurmSyncTask, WithOtherThanSlurmsValuesIsRefused) {
    EXPECT_THROW(taskWith({{"SLURM_JOB_ID", "../7"}}), Error);
    EXPECT_THROW(taskWith({{"SLURM_STEPID", "-1"}}), Error);
    EXPECT_THROW(taskWith({{"SLURM_NTASKS", "4000000000"}}), Error);
    EXPECT_THROW(taskWith({{"SLURM_PROCID", "4"}}), Error);
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
