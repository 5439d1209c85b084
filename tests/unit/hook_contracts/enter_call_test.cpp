#include "hook_contracts/enter_call.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"

namespace sarus::hook_contracts::enter_call_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::string_view rootless = R"([{"containerID":0,"hostID":0,"size":1}])";

oci::BundleConfig config(std::string_view args, std::string_view mappings = "[]") {
    return oci::BundleConfig::parse(
        cat(R"({"process":{"cwd":"/","args":)", args, R"(},"linux":{"uidMappings":)", mappings, "}}"), "x");
}

TEST(EnteredIds, AreThoseOfTheCall) {
    constexpr auto words = R"(["/dev/.sarus-enter", "--ids=1000:100", "--namespace=7", "--", "sh"])";
    const auto ids = findEnteredIds(config(words, rootless));
    ASSERT_TRUE(ids);
    EXPECT_EQ(ids->uid, 1000U);
    EXPECT_EQ(ids->gid, 100U);
    EXPECT_EQ(ids->payloadNamespace, 7);
    for (const auto* other :
         {R"(["sh", "--ids=1000:100", "--", "sh"])", R"(["/dev/.sarus-enter", "--ids=1000:100"])",
          R"(["/dev/.sarus-enter", "--ids=1000", "--", "sh"])", R"(["/dev/.sarus-enter", "--", "--ids=1:1"])",
          R"(["/dev/.sarus-enter", "--workdir=/", "--", "sh"])", "[]"}) {
        EXPECT_FALSE(findEnteredIds(config(other, rootless))) << other;
    }
    for (const auto* mappings : {"[]", R"([{"containerID":0,"hostID":100000,"size":65536}])",
                                 R"([{"containerID":1000,"hostID":0,"size":1}])"}) {
        EXPECT_FALSE(findEnteredIds(config(words, mappings))) << "a user has typed them: " << mappings;
    }
}

TEST(EnterWords, AreUtf8WhateverTheyName) {
    const std::string workdir = "/caf\xE9 100%";
    const std::vector<std::string> command{"ls", "\xFF", "gr\xC3\xBCn", "--percent"};
    const std::vector<std::pair<std::string, std::string>> environment{{"A", "text"}, {"B", "\xE9"}};
    const auto words = enterWords({.workdir = workdir, .command = command, .environment = environment});
    EXPECT_THAT(words, ElementsAre("--percent", "--env=B=%E9", "--workdir=/caf%E9 100%25", "--", "ls", "%FF",
                                   "gr%C3%BCn", "--percent"));
    auto args = cat(R"("/dev/.sarus-enter")");
    for (const auto& word : words) {
        args += cat(", \"", word, '"');
    }
    const auto found = findContainerCommand(config(cat('[', args, ']')));
    EXPECT_EQ(found.workingDirectory, workdir);
    EXPECT_EQ(found.arguments, command);
}

TEST(EnterWords, StayAsTheyAreIfTheyAreText) {
    const std::string workdir = "/gr\xC3\xBCn 100%41";
    const std::vector<std::string> command{"ls", "50%20"};
    EXPECT_THAT(
        enterWords({.workdir = workdir, .isDefaultWorkdir = true, .command = command, .environment = {}}),
        ElementsAre("--default-workdir=/gr\xC3\xBCn 100%41", "--", "ls", "50%20"));
}

TEST(ContainerCommand, IsBehindTheEnginesOwnWords) {
    auto command = findContainerCommand(
        config(R"(["/dev/.sarus-enter", "--workdir=/w", "--", "/dev/init", "--", "sh", "--", "x"])"));
    EXPECT_THAT(command.arguments, ElementsAre("sh", "--", "x"));
    EXPECT_EQ(command.workingDirectory, "/w");
    command = findContainerCommand(config(R"(["/dev/.sarus-enter", "--default-workdir=/d", "--", "sh"])"));
    EXPECT_EQ(command.workingDirectory, "/d");
    command = findContainerCommand(config(R"(["/dev/.sarus-enter", "--ids=1:1", "--", "sh"])"));
    EXPECT_THAT(command.arguments, ElementsAre("sh"));
    EXPECT_EQ(command.workingDirectory, "/");
    command = findContainerCommand(config(R"(["/dev/init", "--", "sh"])"));
    EXPECT_THAT(command.arguments, ElementsAre("sh"));
    command =
        findContainerCommand(config(R"(["/dev/.sarus-enter", "--", "/dev/.sarus-enter", "--hold", "app"])"));
    EXPECT_THAT(command.arguments, ElementsAre("app"));
    EXPECT_THAT(findContainerCommand(config("[]")).arguments, IsEmpty());
    EXPECT_THAT(findContainerCommand(config(R"(["/dev/.sarus-enter", "x"])")).arguments,
                ElementsAre("/dev/.sarus-enter", "x"));
}

}  // namespace
}  // namespace sarus::hook_contracts::enter_call_test
