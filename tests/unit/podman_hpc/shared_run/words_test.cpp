#include "podman_hpc/shared_run/words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc::words_test {
namespace {

using testing::ElementsAre;

SharedRunWords splitLine(const std::string& line) {
    static const OptionTable none;
    return splitSharedRunWords(splitWords(line), []() -> const OptionTable& { return none; }, {"mpi"});
}

std::string shown(const std::vector<std::vector<std::string>>& options) {
    std::vector<std::string> words;
    for (const auto& option : options) {
        words.insert(words.end(), option.begin(), option.end());
    }
    return join(words, " ");
}

TEST(SharedRunWords, EachOptionGoesToTheCommandsThatHaveIt) {
    const auto words =
        splitLine("--mpi --rm -it -e A=b -v /a:/b --env-file f -w /d -u 1 --privileged image ls -e x --mpi");
    EXPECT_EQ(shown(words.run), "--rm -i -t -e A=b -v /a:/b --env-file f -w /d -u 1 --privileged");
    EXPECT_EQ(shown(words.exec), "-i -t -e A=b --env-file f -w /d -u 1 --privileged");
    EXPECT_EQ(join(words.runOnly, " "), "--rm -v /a:/b");
    EXPECT_THAT(words.flags, ElementsAre("mpi"));
    EXPECT_EQ(words.image, "image");
    EXPECT_THAT(words.command, ElementsAre("ls", "-e", "x", "--mpi"));
}

TEST(SharedRunWords, FiltersAndLimitsAreNoticed) {
    for (const auto* options :
         {"--memory 1g", "-m1g", "--cpus=2", "-c 5", "--pids-limit 5", "--cgroup-conf a=b"}) {
        EXPECT_TRUE(splitLine(cat(options, " image")).limits) << options;
    }
    EXPECT_TRUE(splitLine("--security-opt seccomp=/f image").seccomp);
    const auto words =
        splitLine("--cgroupns=host --device /dev/null --security-opt no-new-privileges image -m 1g");
    EXPECT_FALSE(words.limits || words.seccomp);
}

TEST(SharedRunWords, WhatTheReferenceSplitsWrong) {
    for (const auto* options : {"--shm-size 1g", "--memory 1g", "--init=true", "--name image",
                                "--detach-keys a", "-eA=b", "-itv/a:/b", "--", "-l a=b"}) {
        EXPECT_EQ(splitLine(cat(options, " image ls -h")).image, "image") << options;
    }
    EXPECT_EQ(shown(splitLine("-itv/a:/b image").run), "-i -t -v/a:/b");
    EXPECT_EQ(shown(splitLine("-l a=b image").exec), "") << "a label, not the latest container";
}

TEST(SharedRunWords, OptionsOfTheContainersOwnCommandAreLeftOut) {
    const auto words = splitLine("--preserve-fds 2 --entrypoint /x image");
    EXPECT_EQ(shown(words.run), "");
    EXPECT_EQ(shown(words.exec), "--preserve-fds 2");
}

TEST(SharedRunWords, Mistakes) {
    for (const auto* line : {"", "--rm", "-d image", "--detach image", "-itd image", "--detach=true image"}) {
        try {
            splitLine(line);
            FAIL() << line;
        } catch (const Error& error) {
            EXPECT_EQ(error.exitStatus(), 2) << line;
        }
    }
    EXPECT_EQ(splitLine("--detach=false image").image, "image");
    EXPECT_TRUE(splitLine("--help").help);
    EXPECT_FALSE(splitLine("image --help").help);
}

TEST(SharedRunExecOptions, AllForms) {
    const auto options = readExecOptions(splitWords(
        "-e A=b -eB=c --env=C --env-file f -u 1:2 --workdir=/d -it --privileged=false --preserve-fds 2"));
    EXPECT_THAT(options.variables, ElementsAre("A=b", "B=c", "C"));
    EXPECT_THAT(options.variableFiles, ElementsAre("f"));
    EXPECT_EQ(options.user, "1:2");
    EXPECT_EQ(options.directory, "/d");
    EXPECT_TRUE(options.interactive && options.terminal);
    EXPECT_FALSE(options.privileged || options.others);
    EXPECT_EQ(options.keptDescriptors, 2U);
    EXPECT_TRUE(readExecOptions({"--root", "/x"}).others);
    EXPECT_THAT(readExecOptions({"-e SLURM_*"}).variables, ElementsAre(" SLURM_*"));
}

}  // namespace
}  // namespace sarus::podman_hpc::words_test
