#include "spank/step_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::spank::step_request_test {
namespace {

using testing::ElementsAre;

TEST(StepRequests, ArriveAsTheyWereSent) {
    const StepRequest request{.image = "a=b",
                              .edf = "image = \"x\"\n[env]\nA = \"\\\\n\"\n",
                              .name = "name",
                              .nameUse = NameUse::noExec,
                              .save = "/a\nb",
                              .options = {"--mount=\nrun=x", "", "\\", "--env=A", "\\n", "\n"},
                              .refused = {"read-only", "remap-root"}};
    EXPECT_EQ(parseRequest(serialize(request)), request);
    EXPECT_EQ(parseRequest(serialize({})), StepRequest());
}

TEST(StepRequests, DamagedOnesAreRefused) {
    for (const auto* text : {"", "garbage", "\n", "image=a", "image\n", "imagex\n", "unknown=x\n",
                             "image=\\\n", "image=\\x\n", "use=x\n", "image=a\n\n"}) {
        EXPECT_THROW(parseRequest(text), Error) << text;
    }
}

TEST(StepRequests, LargeOnesAreRefused) {
    EXPECT_THROW(serialize({.edf = std::string(maxRequestSize, 'x')}), Error);
}

TEST(StepCommands, RunInANewContainer) {
    const StepRequest request{
        .image = "tool", .name = "n", .options = {"--read-only", "--env=A"}, .refused = {"remap-root"}};
    EXPECT_THAT(runArguments(request, {"app", {"-x"}}, "", false, "n.job7", false),
                ElementsAre("sarus", "run", "--name=n.job7", "--keep", "--read-only", "--env=A", "tool",
                            "app", "-x"));
    EXPECT_THAT(runArguments(request, {"app", {}}, "", true, "", false),
                ElementsAre("sarus", "run", "--tty", "--read-only", "--env=A", "tool", "app"));
}

TEST(StepCommands, FollowTheDefinitionThatNamesTheImage) {
    EXPECT_THAT(runArguments({.edf = "text"}, {"-app", {}}, "/dev/fd/3", false, "", false),
                ElementsAre("sarus", "run", "--edf=/dev/fd/3", "--", "-app"));
}

TEST(StepCommands, BatchScriptsGetAPlaceInTheContainer) {
    EXPECT_THAT(
        runArguments({.image = "tool"}, {"/spool/job1/slurm_script", {"x"}}, "", false, "", true),
        ElementsAre("sarus", "run",
                    "--mount=type=bind,source=/spool/job1/slurm_script,destination=/slurm_script,readonly",
                    "tool", "/slurm_script", "x"));
}

TEST(StepCommands, JoinTheContainerOfTheName) {
    const StepRequest request{
        .image = "tool", .name = "n", .options = {"--read-only", "--env=A"}, .refused = {"remap-root"}};
    EXPECT_THAT(joinArguments(request, {"app", {"-x"}}, "", true, "n.job7"),
                ElementsAre("sarus", "run", "--name=n.job7", "--join", "tool", "--tty", "--read-only",
                            "--env=A", "--join-without=remap-root", "--", "app", "-x"));
    EXPECT_THAT(joinArguments({.edf = "text", .name = "n"}, {"-app", {}}, "/dev/fd/3", false, "n.job7"),
                ElementsAre("sarus", "run", "--name=n.job7", "--join", "", "--edf=/dev/fd/3", "--", "-app"));
}

TEST(StepCommands, HoldTheContainerOfTheNameOpenAndJoinIt) {
    const StepRequest request{.image = "tool", .name = "n", .options = {"--read-only"}};
    EXPECT_THAT(
        holdArguments(request, {"app", {"-x"}}, "", "n.job7"),
        ElementsAre("sarus", "run", "--hold", "--name=n.job7", "--keep", "--read-only", "tool", "app", "-x"));
    EXPECT_THAT(joinArguments(request, {"app", {}}, "", false, "n.job7", 5),
                ElementsAre("sarus", "run", "--name=n.job7", "--join", "tool", "--keeper=5", "--read-only",
                            "--", "app"));
}

TEST(StepCommands, NamesBelongToTheirJob) {
    EXPECT_EQ(containerName("n", "7"), "n.job7");
    EXPECT_EQ(containerName("n", ""), "n");
    EXPECT_EQ(containerName("", "7"), "");
    EXPECT_EQ(containerName("7.0", "7"), "7.0");
}

TEST(StepCommands, NumbersOfAJobAndAStepAreNoName) {
    ASSERT_TRUE(stepOfName("71.2"));
    EXPECT_EQ(stepOfName("71.2")->job, "71");
    EXPECT_EQ(stepOfName("71.2")->step, "2");
    for (const auto* name : {"7", "7.", ".0", "7.0.1", "7.batch", "n.0", "7-0", ""}) {
        EXPECT_FALSE(stepOfName(name)) << name;
    }
}

}  // namespace
}  // namespace sarus::spank::step_request_test
