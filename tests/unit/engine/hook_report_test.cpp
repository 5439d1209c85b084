#include "engine/hook_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace sarus::engine::hook_report_test {
namespace {

using testing::AllOf;
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

TEST(FiringTable, NamesTheConditionThatDecides) {
    const std::map<std::string, std::string> annotations{{"com.hooks.mpi.enabled", "true"},
                                                         {"com.hooks.mpi.type", "mpi0"}};
    const oci::HookSubject subject{.annotations = annotations, .command = "/bin/app", .hasBindMounts = false};
    const std::vector hooks{
        hook("01-fires", mpi("^mpi0$")),
        hook("02-type", mpi("^mpi1$")),
        hook("03-key", {.always = {}, .annotations = {{"^site$", "1"}}, .commands = {}, .hasBindMounts = {}}),
        hook("04-never", {.always = false,
                          .annotations = {{"^com.hooks.mpi.enabled$", "true"}},
                          .commands = {},
                          .hasBindMounts = {}}),
        hook("05-cmd",
             {.always = {}, .annotations = {}, .commands = {"/usr/.*", "app"}, .hasBindMounts = true}),
        hook("06-both", {.always = true, .annotations = {}, .commands = {".*/app"}, .hasBindMounts = false})};
    const auto table = formatFiringTable(hooks, subject);
    const std::string stages = "   createRuntime,poststop   ";
    EXPECT_THAT(table, HasSubstr("NAME         RUNS         STAGES                   WHY\n"));
    EXPECT_THAT(table,
                HasSubstr("01-fires     yes       " + stages +
                          "annotation com.hooks.mpi.enabled=true; annotation com.hooks.mpi.type=mpi0\n"));
    EXPECT_THAT(table, HasSubstr("02-type      no        " + stages +
                                 "annotation com.hooks.mpi.type=mpi0 does not match ^mpi1$\n"));
    EXPECT_THAT(table, HasSubstr("03-key       no        " + stages + "no annotation matches ^site$\n"));
    EXPECT_THAT(table, HasSubstr("04-never     no        " + stages + "always is false\n"));
    EXPECT_THAT(table, HasSubstr("05-cmd       no        " + stages +
                                 "command /bin/app does not match /usr/.* or app; there is no bind mount\n"));
    EXPECT_THAT(table, HasSubstr("06-both      yes       " + stages +
                                 "always; command /bin/app matches .*/app; there is no bind mount\n"));
}

TEST(FiringTable, ControlCharactersOfImagesAreNotPrinted) {
    const std::map<std::string, std::string> annotations{{"com.hooks.mpi.enabled", "\033[2J\ntrue"}};
    const oci::HookSubject subject{
        .annotations = annotations, .command = "/bin/\033app", .hasBindMounts = false};
    const auto table = formatFiringTable({hook("01", {.always = {},
                                                      .annotations = {{"com.hooks.mpi.enabled", "true"}},
                                                      .commands = {"x"},
                                                      .hasBindMounts = {}})},
                                         subject);
    EXPECT_EQ(table.find('\033'), std::string::npos);
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2);
}

TEST(HookJson, KeysAreThoseOfTheManPage) {
    const std::vector hooks{
        hook("050-mpi0", mpi("^mpi0$")),
        hook("060-other", {.always = true, .annotations = {}, .commands = {}, .hasBindMounts = {}})};
    const std::string first =
        R"({"name":"050-mpi0","file":"/hooks.d/050-mpi0.json","path":"/opt/bin/hook","args":[],)"
        R"("stages":["createRuntime","poststop"],"mpi":{"enabled":true,"type":"^mpi0$","default":true}})";
    EXPECT_EQ(formatHookJson(hooks, "mpi0", true), "[" + first + "]\n");
    EXPECT_THAT(
        formatHookJson(hooks, "mpi0", false),
        AllOf(HasSubstr(first + ",{"), HasSubstr(R"("mpi":{"enabled":false,"type":"","default":false}}])")));
    EXPECT_EQ(formatHookJson({}, std::nullopt, false), "[]\n");
}

TEST(MpiHookTable, MarksTheDefaultAndLeavesOthersOut) {
    const std::vector hooks{
        hook("050-mpi0-hook", mpi("^mpi0$")), hook("051-mpi1-hook", mpi("^mpi1$")),
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

TEST(HookReport, SecondSshHookIsNamed) {
    auto first = hook("07-ssh", mpi("^x$"));
    first.hook.path = "/opt/sarus/bin/ssh_hook";
    first.stages = {"createRuntime"};
    auto second = first;
    second.file = "/hooks.d/08-ssh.json";
    EXPECT_THAT(
        secondSshHooks({first, hook("06-other", mpi("^x$")), second}),
        testing::ElementsAre(HasSubstr("08-ssh.json: a second SSH hook, besides /hooks.d/07-ssh.json")));
    second.stages = {"poststop"};
    EXPECT_THAT(secondSshHooks({first, second}), IsEmpty()) << "one hook in two files";
}

}  // namespace
}  // namespace sarus::engine::hook_report_test
