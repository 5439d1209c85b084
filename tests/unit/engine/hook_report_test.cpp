#include "engine/hook_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sarus::engine {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

oci::HookConfig hook(std::string name, oci::HookConditions when) {
    return {.file = "/hooks.d/" + name + ".json",
            .hook = {.path = "/opt/bin/hook", .args = {}, .env = {}, .timeout = {}},
            .when = std::move(when),
            .stages = {"createRuntime", "poststop"}};
}

oci::HookConditions mpi(const std::string& type) {
    return {.always = {},
            .annotations = {{"^com.hooks.mpi.enabled$", "^true$"}, {"^com.hooks.mpi.type$", type}},
            .commands = {},
            .hasBindMounts = {}};
}

TEST(HookTable, NamePathAndStages) {
    EXPECT_EQ(formatHookTable({hook("01-slurm-global-sync", mpi("x"))}),
              "NAME                   PATH            STAGES\n"
              "01-slurm-global-sync   /opt/bin/hook   createRuntime,poststop\n");
}

TEST(MpiHookTable, MarksTheDefaultAndLeavesOthersOut) {
    const std::vector hooks{hook("050-mpi0-hook", mpi("^mpi0$")), hook("051-mpi1-hook", mpi("^mpi1$")),
                            hook("060-other", {.always = true, .annotations = {}, .commands = {}, .hasBindMounts = {}})};
    EXPECT_EQ(formatMpiHookTable(hooks, "mpi0"),
              "NAME            MPI TYPE\n"
              "050-mpi0-hook   ^mpi0$ (default)\n"
              "051-mpi1-hook   ^mpi1$\n");
    EXPECT_THAT(formatMpiHookTable(hooks, std::nullopt), testing::Not(HasSubstr("default")));
}

TEST(SuspiciousConditions, HookThatNeverRuns) {
    auto when = mpi("^x$");
    EXPECT_THAT(suspiciousConditions(hook("x", when)), IsEmpty());
    when.always = false;
    EXPECT_THAT(suspiciousConditions(hook("x", when)), Contains(HasSubstr("never runs")));
    when.always = true;
    EXPECT_THAT(suspiciousConditions(hook("x", when)), Contains(HasSubstr("next to other conditions")));
}

TEST(SuspiciousConditions, PatternWithoutAnchors) {
    EXPECT_THAT(suspiciousConditions(hook("x", mpi("mpich"))), Contains(HasSubstr("'mpich'")));
    EXPECT_THAT(suspiciousConditions(hook("x", mpi(".*mpich"))), IsEmpty());
}

}  // namespace
}  // namespace sarus::engine
