#include "oci/hooks/hook_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"

namespace sarus::oci::hook_config_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* complete = R"({"version": "1.0.0",
    "hook": {"path": "/opt/bin/mpi_hook", "args": ["mpi_hook", "a b"], "env": ["A=1"], "timeout": 5},
    "when": {"annotations": {"^com.hooks.mpi.enabled$": "^true$"}, "commands": [".*/app"], "hasBindMounts": true, "always": true},
    "stages": ["createContainer", "poststop"]})";

std::string file(std::string_view hook, std::string_view when, std::string_view stages = R"(["prestart"])") {
    return std::string(R"({"version": "1.0.0", "hook": )") + std::string(hook) + R"(, "when": )" +
           std::string(when) + R"(, "stages": )" + std::string(stages) + "}";
}

std::string when(std::string_view conditions) {
    return file(R"({"path": "/h"})", conditions);
}

std::string errorOf(const std::string& json) {
    try {
        parseHookConfig(json, "/hooks.d/01-x.json");
        return "no error";
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(HookConfig, EverythingOfTheFileIsKept) {
    const auto config = parseHookConfig(complete, "/hooks.d/01-mpi.json");
    EXPECT_EQ(config.name(), "01-mpi");
    EXPECT_EQ(config.hook.path, "/opt/bin/mpi_hook");
    EXPECT_THAT(config.hook.args, ElementsAre("mpi_hook", "a b"));
    EXPECT_THAT(config.hook.env, ElementsAre("A=1"));
    EXPECT_EQ(config.hook.timeout, 5U);
    EXPECT_THAT(config.stages, ElementsAre("createContainer", "poststop"));
}

TEST(HookConfig, EveryStageIsAccepted) {
    for (const auto& stage : hookStages()) {
        EXPECT_NO_THROW(parseHookConfig(
            file(R"({"path": "/h"})", R"({"always": true})", "[\"" + stage + "\"]"), "f.json"));
    }
}

TEST(HookConfig, MessagesNameFileAndKey) {
    EXPECT_THAT(errorOf("{"), AllOf(HasSubstr("/hooks.d/01-x.json"), HasSubstr("not valid JSON")));
    EXPECT_THAT(errorOf("{\"a\":1e999}"),
                AllOf(HasSubstr("/hooks.d/01-x.json"), HasSubstr("not valid JSON")));
    EXPECT_THAT(errorOf("[]"),
                HasSubstr("/hooks.d/01-x.json: the document: expected an object, found an array"));
    EXPECT_THAT(errorOf(file(R"({"path": "rel"})", R"({"always": true})")),
                HasSubstr("/hooks.d/01-x.json: hook.path: expected an absolute path, found 'rel'"));
    EXPECT_THAT(errorOf(file(R"({"args": []})", R"({"always": true})")),
                HasSubstr("hook: the required key 'path' is missing"));
    EXPECT_THAT(errorOf(file(R"({"path": "/h", "timeout": 0})", R"({"always": true})")),
                HasSubstr("hook.timeout: expected"));
    EXPECT_THAT(errorOf(file(R"({"path": "/h", "env": ["A=1", 2]})", R"({"always": true})")),
                HasSubstr("hook.env[1]: expected a string, found 2"));
    EXPECT_THAT(errorOf(file(R"({"path": "/h", "cwd": "/"})", R"({"always": true})")),
                HasSubstr("hook: unknown key 'cwd'"));
    EXPECT_THAT(errorOf(file(R"({"path": "/h"})", R"({"always": true})", R"(["start"])")),
                HasSubstr("stages[0]: expected one of precreate, prestart"));
    EXPECT_THAT(errorOf(R"({"version": "0.1.0"})"), HasSubstr("version: expected \"1.0.0\", found '0.1.0'"));
    EXPECT_THAT(errorOf(R"({"version": "1.0.0"})"), HasSubstr("the required key 'hook' is missing"));
}

TEST(HookConfig, ConditionsAreRequiredAndKnown) {
    EXPECT_THAT(errorOf(when("{}")), HasSubstr("when: expected at least one condition, found none"));
    EXPECT_THAT(errorOf(when(R"({"hasGpu": true})")), HasSubstr("when: unknown condition 'hasGpu'"));
    EXPECT_THAT(errorOf(when(R"({"commands": ["("]})")),
                HasSubstr("when.commands[0]: invalid regular expression '('"));
    EXPECT_THAT(errorOf(when(R"({"annotations": {"[": "x"}})")),
                HasSubstr("when.annotations: invalid regular expression '['"));
}

TEST(HookConfigCorpus, ProgramJudgesLikeTheSchema) {
    const auto cases = nlohmann::json::parse(readFile(SARUS_SOURCE_DIR "/tests/data/hook_json/cases.json"));
    for (const auto& entry : cases) {
        const bool valid = errorOf(entry.at("document").dump()) == "no error";
        EXPECT_EQ(valid, entry.at("valid").get<bool>()) << entry.at("name");
    }
}

struct HookFires : testing::Test {
    std::map<std::string, std::string> annotations{{"com.hooks.mpi.enabled", "true"},
                                                   {"com.hooks.mpi.type", "mpich3"}};

    bool fires(std::string_view conditions, std::string_view command = "/usr/bin/app",
               bool bindMounts = false) {
        return hookFires(parseHookConfig(when(conditions), "f.json").when,
                         {.annotations = annotations, .command = command, .hasBindMounts = bindMounts});
    }
};

TEST_F(HookFires, AlwaysFalseDisables) {
    EXPECT_TRUE(fires(R"({"always": true})"));
    EXPECT_FALSE(fires(R"({"always": false})"));
    EXPECT_FALSE(fires(R"({"always": false, "commands": [".*"]})"));
}

/// The example of the reference for pce_hook. With Podman, the same file never runs either.
TEST_F(HookFires, AlwaysFalseDisablesTheDocumentedExampleToo) {
    annotations["pce.enable"] = "true";
    EXPECT_FALSE(fires(R"({"always": false, "annotations": {"pce.enable": "^true$"}})"));
    EXPECT_TRUE(fires(R"({"annotations": {"pce.enable": "^true$"}})"));
}

TEST_F(HookFires, ConditionsAreAnded) {
    EXPECT_FALSE(fires(R"({"always": true, "commands": ["nothing"]})"));
    EXPECT_FALSE(fires(R"({"commands": [".*app"], "hasBindMounts": true})"));
    EXPECT_TRUE(fires(R"({"commands": [".*app"], "hasBindMounts": true})", "/app", true));
}

TEST_F(HookFires, PatternsMatchTheWholeText) {
    EXPECT_FALSE(fires(R"({"commands": ["app"]})"));
    EXPECT_FALSE(fires(R"({"annotations": {"com.hooks.mpi.enabled": "tru"}})"));
    EXPECT_FALSE(fires(R"({"annotations": {"mpi.enabled": "true"}})"));
    EXPECT_TRUE(fires(R"({"annotations": {"^com.hooks.mpi.enabled$": "^true$"}})"));
}

TEST_F(HookFires, AnyCommandPatternIsEnough) {
    EXPECT_TRUE(fires(R"({"commands": ["x", "/usr/bin/.*"]})"));
}

TEST_F(HookFires, EachPairOfAnnotationsMustMatchOneAnnotation) {
    EXPECT_TRUE(
        fires(R"({"annotations": {"com.hooks.mpi.enabled": "true", "com.hooks.mpi.type": "mpich."}})"));
    EXPECT_FALSE(
        fires(R"({"annotations": {"com.hooks.mpi.enabled": "true", "com.hooks.mpi.type": "ompi"}})"));
    EXPECT_FALSE(fires(
        R"({"annotations": {"com.hooks.mpi.type": "true"}})"));  // key and value of different annotations
}

TEST_F(HookFires, HasBindMountsFalseInverts) {
    EXPECT_TRUE(fires(R"({"hasBindMounts": false})"));
    EXPECT_FALSE(fires(R"({"hasBindMounts": false})", "app", true));
}

TEST_F(HookFires, CatastrophicPatternTakesLinearTime) {
    annotations["x"] = std::string(100'000, 'a') + "b";
    EXPECT_FALSE(fires(R"({"annotations": {"x": "(a*)*c"}})"));
}

TEST(MpiTypePattern, OnlyHooksThatMpiEnables) {
    const auto of = [](std::string_view conditions) {
        return mpiTypePattern(parseHookConfig(when(conditions), "f").when);
    };
    EXPECT_EQ(
        of(R"({"annotations": {"^com.hooks.mpi.enabled$": "^true$", "^com.hooks.mpi.type$": "^mpi0$"}})"),
        "^mpi0$");
    EXPECT_EQ(of(R"({"annotations": {"^com.hooks.mpi.enabled$": "^true$"}})"), "");
    EXPECT_EQ(of(R"({"annotations": {"^com.hooks.glibc.enabled$": "^true$"}})"), std::nullopt);
    EXPECT_EQ(of(R"({"always": true})"), std::nullopt);
}

}  // namespace
}  // namespace sarus::oci::hook_config_test
