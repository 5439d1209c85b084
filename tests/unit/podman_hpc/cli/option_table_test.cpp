#include "podman_hpc/cli/option_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc::option_table_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

OptionTable newer() {
    return parseHelpPage(
        "Options:\n"
        "      --size <number>[<unit>]   Size\n"
        "  -x, --extra [a-Z]             Keys\n"
        "      --flag                    Flag\n"
        "      --maybe string[=\"x\"]      Value behind '=' alone\n"
        "      --help\n");
}

ScannedWords scan(const std::string& line, const OptionTable& known = runOptions()) {
    static const auto table = newer();
    return scanOptions(splitWords(line), known, []() -> const OptionTable& { return table; }, {"gpu", "mpi"});
}

/// The words that the container gets, if `--gpu` in front of them is not interpreted.
std::string fromImage(const std::string& options) {
    const auto scanned = scan(options + " image --gpu --help");
    return scanned.flags.empty() && !scanned.help ? "image" : "interpreted";
}

TEST(OptionTable, HelpPage) {
    const auto table = newer();
    EXPECT_TRUE(table.longNames.at("size"));
    EXPECT_TRUE(table.longNames.at("extra"));
    EXPECT_TRUE(table.shortNames.at('x'));
    EXPECT_FALSE(table.longNames.at("flag"));
    EXPECT_FALSE(table.longNames.at("maybe"));
    EXPECT_FALSE(table.longNames.at("help"));
}

TEST(ScanOptions, StopsAtTheImage) {
    const auto scanned = scan("--gpu --rm image --mpi -- --help");
    EXPECT_THAT(scanned.flags, ElementsAre("gpu"));
    EXPECT_THAT(scanned.words, ElementsAre("--rm", "image", "--mpi", "--", "--help"));
    EXPECT_FALSE(scanned.help);
    EXPECT_TRUE(scanned.complete);
}

TEST(ScanOptions, DoubleDashStaysAndEndsTheOptions) {
    const auto scanned = scan("--rm -- image --gpu");
    EXPECT_THAT(scanned.words, ElementsAre("--rm", "--", "image", "--gpu"));
    EXPECT_THAT(scanned.flags, IsEmpty());
    EXPECT_THAT(scan("image -- ls").words, ElementsAre("image", "--", "ls"));
    EXPECT_FALSE(scan("--rm --").complete);
}

TEST(ScanOptions, ValuesAreNotTheImage) {
    for (const auto* options : {"-e A=b",
                                "-eA=b",
                                "-it",
                                "-ite A",
                                "--env A",
                                "--env=A",
                                "--shm-size 1g",
                                "--memory 1g",
                                "-m 1g",
                                "--memory-reservation 1g",
                                "--detach-keys ctrl-a",
                                "--init=true",
                                "--init",
                                "--name image",
                                "-h host",
                                "-hhost",
                                "--root /r",
                                "--storage-opt a=b",
                                "-v /a:/b",
                                "--net host",
                                "-t=true"}) {
        EXPECT_EQ(fromImage(options), "image") << options;
    }
}

TEST(ScanOptions, AFlagAfterAnOptionsValueIsTheValue) {
    const auto scanned = scan("-e --gpu image");
    EXPECT_THAT(scanned.flags, IsEmpty());
    EXPECT_THAT(scanned.words, ElementsAre("-e", "--gpu", "image"));
}

TEST(ScanOptions, UnknownLongOptionsAreLookedUp) {
    EXPECT_EQ(fromImage("--size 1g"), "image");
    EXPECT_EQ(fromImage("--flag"), "image");
    EXPECT_EQ(fromImage("--unknown"), "image");
    EXPECT_EQ(scan("--size --gpu image").flags.size(), 0U);
    int lookUps = 0;
    const OptionTable none;
    scanOptions({"--rm", "--unknown=1", "-e", "x", "image", "--unknown"}, runOptions(),
                [&]() -> const OptionTable& { return ++lookUps, none; }, {});
    EXPECT_EQ(lookUps, 0);
}

TEST(ScanOptions, ExecHasOptionsOfItsOwn) {
    EXPECT_TRUE(scan("-l ls --help", execOptions()).complete);
    EXPECT_FALSE(scan("-w /dir name ls --help", execOptions()).help);
    EXPECT_TRUE(scan("-it --help name", execOptions()).help);
}

TEST(ScanOptions, AModulesFlagTakesNoValue) {
    try {
        scan("--gpu=1 image");
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "Option '--gpu' does not take a value.");
        EXPECT_EQ(error.exitStatus(), 2);
    }
}

}  // namespace
}  // namespace sarus::podman_hpc::option_table_test
