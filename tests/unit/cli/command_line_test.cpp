#include "cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/help_text.hpp"

namespace sarus::cli::command_line_test {
namespace {

using testing::ElementsAre;

Arguments run(const std::vector<std::string>& tokens) {
    return parseCommand(*findCommand("run"), tokens);
}

std::string failure(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        std::string text = error.what();
        for (const auto& line : error.usage()) {
            text += "\n" + line;
        }
        return text;
    }
    return "no error";
}

std::string runFailure(const std::vector<std::string>& tokens) {
    return failure([&] { run(tokens); });
}

TEST(CommandLine, NothingAfterTheFirstPositionalIsInterpreted) {
    const auto arguments = run({"-t", "image", "--foo", "-m", "--", "x"});
    EXPECT_TRUE(arguments.has("tty"));
    EXPECT_FALSE(arguments.has("mpi"));
    EXPECT_THAT(arguments.positionals(), ElementsAre("image", "--foo", "-m", "--", "x"));
}

TEST(CommandLine, TwoDashesEndTheOptions) {
    EXPECT_THAT(run({"-t", "--", "x", "--"}).positionals(), ElementsAre("x", "--"));
    const auto rmi = [](const std::vector<std::string>& tokens) {
        return parseCommand(*findCommand("rmi"), tokens).positionals();
    };
    EXPECT_THAT(rmi({"a", "--", "-b", "--"}), ElementsAre("a", "-b", "--"));
    const auto exec = [](const std::vector<std::string>& tokens) {
        return parseCommand(*findCommand("exec"), tokens);
    };
    EXPECT_THAT(exec({"name", "--", "ls", "--", "-t"}).positionals(), ElementsAre("name", "ls", "--", "-t"));
}

TEST(CommandLine, OptionsMayStandBehindWords) {
    const auto pull = [](const std::vector<std::string>& tokens) {
        return parseCommand(*findCommand("pull"), tokens);
    };
    const auto arguments = pull({"image", "-q", "--temp-dir", "/tmp"});
    EXPECT_TRUE(arguments.has("quiet"));
    EXPECT_EQ(arguments.value("temp-dir"), "/tmp");
    EXPECT_THAT(arguments.positionals(), ElementsAre("image"));
    const auto exec =
        parseCommand(*findCommand("exec"), std::vector<std::string>{"name", "-t", "ls", "-w", "x"});
    EXPECT_TRUE(exec.has("tty"));
    EXPECT_FALSE(exec.has("workdir")) << "it belongs to the container's command";
    EXPECT_THAT(exec.positionals(), ElementsAre("name", "ls", "-w", "x"));
}

TEST(CommandLine, UnknownOptionBehindWordsIsNamed) {
    const auto fail = [](const std::string& command, const std::vector<std::string>& tokens) {
        return failure([&] { parseCommand(*findCommand(command), tokens); });
    };
    EXPECT_EQ(fail("pull", {"image", "--quite"}),
              "Too many arguments for command 'pull'\nSee 'sarus help pull'\nunrecognised option '--quite'\n"
              "Did you mean '--quiet'?");
    EXPECT_EQ(
        fail("pull", {"image", "--authfile", "f"}),
        "Too many arguments for command 'pull'\nSee 'sarus help pull'\nunrecognised option '--authfile'");
    EXPECT_EQ(fail("rmi", {"image", "--frobnicate"}),
              "unrecognised option '--frobnicate'\nSee 'sarus help rmi'");
}

TEST(CommandLine, DashesAloneAndThreeDashesArePositionals) {
    EXPECT_THAT(run({"-", "x"}).positionals(), ElementsAre("-", "x"));
    EXPECT_THAT(run({"---tty", "x"}).positionals(), ElementsAre("---tty", "x"));
}

TEST(CommandLine, AcceptsAllFormsOfValues) {
    for (const auto& tokens : std::vector<std::vector<std::string>>{{"--workdir=/w", "i"},
                                                                    {"--workdir", "/w", "i"},
                                                                    {"-w", "/w", "i"},
                                                                    {"-w/w", "i"},
                                                                    {"-tw", "/w", "i"},
                                                                    {"-tw/w", "i"}}) {
        const auto arguments = run(tokens);
        EXPECT_EQ(arguments.value("workdir"), "/w") << tokens[0];
        EXPECT_THAT(arguments.positionals(), ElementsAre("i"));
    }
}

TEST(CommandLine, FlagsMayBeSticky) {
    const auto arguments = run({"-mt", "i"});
    EXPECT_TRUE(arguments.has("mpi"));
    EXPECT_TRUE(arguments.has("tty"));
}

TEST(CommandLine, RepeatableOptionsKeepTheirOrder) {
    EXPECT_THAT(run({"-e", "A=1", "--env=B=2", "-eC", "i"}).values("env"), ElementsAre("A=1", "B=2", "C"));
}

TEST(CommandLine, EmptyValueIsLegalAsTheNextTokenButNotAfterTheEqualSign) {
    EXPECT_TRUE(run({"--entrypoint", "", "i"}).has("entrypoint"));
    EXPECT_EQ(runFailure({"--entrypoint=", "i"}),
              "the argument for option '--entrypoint' should follow immediately after the equal sign\nSee "
              "'sarus help run'");
}

TEST(CommandLine, NextTokenIsTheValueUnlessItStartsWithASingleDash) {
    EXPECT_EQ(runFailure({"--workdir", "-t", "i"}),
              "the required argument for option '--workdir' is missing\nSee 'sarus help run'");
    EXPECT_EQ(runFailure({"--workdir", "-", "i"}),
              "the required argument for option '--workdir' is missing\nSee 'sarus help run'");
    EXPECT_EQ(run({"--entrypoint", "--tty", "i"}).value("entrypoint"), "--tty");
}

TEST(CommandLine, OptionGivenTwiceIsAnError) {
    EXPECT_EQ(runFailure({"--workdir=/a", "-w", "/b", "i"}),
              "option '--workdir' cannot be specified more than once\nSee 'sarus help run'");
}

TEST(CommandLine, LongNamesMayBeAbbreviated) {
    EXPECT_TRUE(run({"--central", "i"}).has("centralized-repository"));
    EXPECT_EQ(run({"--work=/w", "i"}).value("workdir"), "/w");
    EXPECT_TRUE(run({"--mpi", "i"}).has("mpi")) << "an exact name wins over longer ones";
    EXPECT_TRUE(parseGlobal(std::vector<std::string>{"--verb"}).has("verbose"));
}

TEST(CommandLine, AbbreviationTakesItsValueAfterABlank) {
    EXPECT_EQ(run({"--work", "/w", "i"}).value("workdir"), "/w");
}

TEST(CommandLine, HelpIsAskedForBeforeAnythingIsCounted) {
    for (const auto& tokens : std::vector<std::vector<std::string>>{
             {"--help"}, {"-h"}, {"-t", "--help"}, {"--workdir", "/", "-h", "i"}, {"-h", "--no-such"}}) {
        EXPECT_TRUE(run(tokens).has("help")) << tokens[0];
    }
    EXPECT_FALSE(run({"i", "ls", "--help"}).has("help")) << "it belongs to the container's command";
    EXPECT_EQ(run({"--workdir", "--help", "i"}).value("workdir"), "--help") << "it is a value";
    for (const std::string name : {"pull", "ps", "kill", "version", "help", "completion"}) {
        const auto& command = *findCommand(name);
        EXPECT_TRUE(parseCommand(command, std::vector<std::string>{"--help"}).has("help")) << name;
        EXPECT_TRUE(parseCommand(command, std::vector<std::string>{"word", "-h"}).has("help")) << name;
    }
}

TEST(CommandLine, SignalsAreOptionsOfKill) {
    const auto signal = [](const std::string& token) {
        return parseCommand(*findCommand("kill"), std::vector<std::string>{token, "name"}).value("signal");
    };
    EXPECT_EQ(signal("-KILL"), "KILL");
    EXPECT_EQ(signal("-SIGTERM"), "SIGTERM");
    EXPECT_EQ(signal("-9"), "9");
    EXPECT_EQ(signal("-s9"), "9");
    EXPECT_EQ(failure([&] { signal("-x"); }), "unrecognised option '-x'\nSee 'sarus help kill'");
}

TEST(CommandLine, OptionsOfOtherEnginesMeanTheSame) {
    const auto arguments =
        run({"-it", "--rm", "-v", "/a:/b", "-B/c", "--bind=/d", "--pwd", "/e", "--nv", "i"});
    EXPECT_TRUE(arguments.has("tty"));
    EXPECT_THAT(arguments.values("volume"), ElementsAre("/a:/b", "/c", "/d"));
    EXPECT_EQ(arguments.value("workdir"), "/e");
    EXPECT_TRUE(arguments.has("nv"));
}

TEST(CommandLine, WhatHasNoEquivalentIsAnsweredByOneLine) {
    EXPECT_EQ(runFailure({"--dns=1.1.1.1", "i"}),
              "unrecognised option '--dns'\nSee 'sarus help run'\n"
              "A container uses the network of the node: leave the option out");
    EXPECT_THAT(runFailure({"-p", "80:80", "i"}), testing::HasSubstr("its ports are there"));
    EXPECT_THAT(failure([] { throwUnknownCommand("stop"); }), testing::HasSubstr("sarus kill -TERM NAME"));
    EXPECT_THAT(failure([] { throwUnknownCommand("container", "stop"); }),
                testing::HasSubstr("sarus kill -TERM NAME"));
}

TEST(CommandLine, WhatSarusDoesAnywayIsAcceptedSilently) {
    for (const auto& tokens : std::vector<std::vector<std::string>>{{"--net", "host", "i"},
                                                                    {"--network=host", "i"},
                                                                    {"-itd=false", "i"},
                                                                    {"--privileged=false", "i"},
                                                                    {"--cap-drop", "ALL", "i"},
                                                                    {"-i", "--rm", "--rm=true", "i"},
                                                                    {"-a", "stdin", "-astdout", "i"}}) {
        EXPECT_THAT(run(tokens).positionals(), ElementsAre("i")) << tokens[0];
    }
    EXPECT_EQ(runFailure({"-itd", "i"}).substr(0, 23), "unrecognised option '-d");
    EXPECT_EQ(runFailure({"--rm=false", "i"}),
              "unrecognised option '--rm'\nSee 'sarus help run'\n"
              "To keep a container that has ended, use --keep and --name");
    EXPECT_TRUE(
        parseCommand(*findCommand("images"), std::vector<std::string>{"--format", "json"}).has("json"));
}

TEST(CommandLine, CommandsOfTwoWordsAreFound) {
    const auto find = [](const std::vector<std::string>& words) {
        const auto [command, count] = findCommand(std::span(words));
        return cat(command == nullptr ? "" : command->name, ' ', count);
    };
    EXPECT_EQ(find({"image", "ls", "x"}), "images 2");
    EXPECT_EQ(find({"image", "rm", "x"}), "rmi 2");
    EXPECT_EQ(find({"rm", "x"}), "rm 1");
    EXPECT_EQ(find({"image", "x"}), " 1");
    EXPECT_EQ(find({}), " 1");
}

TEST(CommandLine, AmbiguousAbbreviationNamesTheCandidates) {
    EXPECT_EQ(failure([] { parseGlobal(std::vector<std::string>{"--v"}); }),
              "option '--v' is ambiguous and matches '--verbose', and '--version'\nSee 'sarus help'");
}

TEST(CommandLine, UnknownOptionIsNamedAndWhatWasMeantIsSuggested) {
    EXPECT_EQ(runFailure({"--invalid-option", "i"}),
              "unrecognised option '--invalid-option'\nSee 'sarus help run'");
    EXPECT_EQ(runFailure({"--wrkdir=/x", "i"}),
              "unrecognised option '--wrkdir'\nSee 'sarus help run'\nDid you mean '--workdir'?");
    EXPECT_EQ(runFailure({"-Q", "i"}), "unrecognised option '-Q'\nSee 'sarus help run'");
    EXPECT_EQ(failure([] {
                  parseGlobal(std::vector<std::string>{"--invalid-option", "run"});
              }),
              "unrecognised option '--invalid-option'\nSee 'sarus help'");
}

TEST(CommandLine, FlagTakesNoValue) {
    EXPECT_EQ(failure([] { parseGlobal(std::vector<std::string>{"--debug=1"}); }),
              "option '--debug' does not take any arguments\nSee 'sarus help'");
}

TEST(CommandLine, NumberOfPositionalsIsCheckedBeforeOptionValues) {
    EXPECT_EQ(runFailure({"--invalid-option"}), "Too few arguments for command 'run'\nSee 'sarus help run'");
    EXPECT_EQ(failure([] {
                  parseCommand(*findCommand("help"), std::vector<std::string>{"a", "b"});
              }),
              "Too many arguments for command 'help'\nSee 'sarus help help'");
}

TEST(CommandLine, VersionAndHelpSupportNoOptions) {
    for (const std::string name : {"version", "help"}) {
        EXPECT_EQ(failure([&] { parseCommand(*findCommand(name), std::vector<std::string>{"--x"}); }),
                  "Command '" + name + "' doesn't support options\nSee 'sarus help " + name + "'");
    }
}

TEST(CommandLine, UnknownCommandIsNamedAndWhatWasMeantIsSuggested) {
    EXPECT_EQ(failure([] { throwUnknownCommand("---run"); }),
              "'---run' is not a Sarus command\nSee 'sarus help'");
    EXPECT_EQ(failure([] { throwUnknownCommand("rnu"); }),
              "'rnu' is not a Sarus command\nSee 'sarus help'\nDid you mean 'run'?");
    EXPECT_EQ(failure([] { throwUnknownCommand("\x1b[2J"); }),
              "'\\x1b[2J' is not a Sarus command\nSee 'sarus help'");
}

TEST(HelpText, ShowsShortFormsAndArgumentsAndWrapsAt80Columns) {
    const auto text = commandHelp(*findCommand("run"));
    EXPECT_THAT(text, testing::StartsWith("Usage: sarus run [OPTIONS] REPOSITORY[:TAG] [COMMAND] [ARG...]\n\n"
                                          "Run a command in a new container\n\nNote: "));
    EXPECT_THAT(text,
                testing::HasSubstr("\n  -t [ --tty ]              Allocate a pseudo-TTY in the container\n"));
    EXPECT_THAT(text, testing::HasSubstr(
                          "\n  --entrypoint arg          Overwrite the default ENTRYPOINT of the image\n"));
    std::size_t column = 0;
    for (const char c : text) {
        column = c == '\n' ? 0 : column + 1;
        EXPECT_LE(column, 80U);
    }
}

TEST(HelpText, ListsTheCommandsAlphabetically) {
    const auto text = generalHelp();
    EXPECT_THAT(text, testing::StartsWith("Usage: sarus COMMAND\n\nOptions:\n"));
    EXPECT_THAT(text, testing::HasSubstr("\n   help         Print help message about a command\n"));
    EXPECT_LT(text.find("\n   help "), text.find("\n   run "));
    EXPECT_NE(text.find("\n   completion "), std::string::npos);
    EXPECT_EQ(text.find("reference"), std::string::npos) << "hidden";
}

}  // namespace
}  // namespace sarus::cli::command_line_test
