#include "oci/runtime/runtime_config.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::oci::runtime_config_test {
namespace {

using Json = nlohmann::json;

/// nlohmann's parser refuses everything that is not valid JSON in UTF-8.
Json written(const RuntimeConfig& config) {
    return Json::parse(serializeRuntimeConfig(config));
}

TEST(RuntimeConfig, WritesTheProcess) {
    RuntimeConfig config;
    config.process.terminal = true;
    config.process.consoleSize = {.height = 24, .width = 80};
    config.process.user = {1000, 100, 027, {5, 6}};
    config.process.args = {"sh", "-c", "echo \"x\""};
    config.process.env = {{"A", "1"}, {"B", "x=y"}};
    config.process.cwd = "/w";
    config.process.rlimits = {{"RLIMIT_NOFILE", 10, 20}};
    config.process.apparmorProfile = "profile";
    config.process.selinuxLabel = "label";
    const auto empty = Json::array();
    EXPECT_EQ(written(config).at("process"),
              Json({{"terminal", true},
                    {"consoleSize", {{"height", 24}, {"width", 80}}},
                    {"user", {{"uid", 1000}, {"gid", 100}, {"umask", 027}, {"additionalGids", {5, 6}}}},
                    {"args", {"sh", "-c", "echo \"x\""}},
                    {"env", {"A=1", "B=x=y"}},
                    {"cwd", "/w"},
                    {"capabilities",
                     {{"bounding", empty},
                      {"effective", empty},
                      {"inheritable", empty},
                      {"permitted", empty},
                      {"ambient", empty}}},
                    {"rlimits", {{{"type", "RLIMIT_NOFILE"}, {"soft", 10}, {"hard", 20}}}},
                    {"noNewPrivileges", true},
                    {"apparmorProfile", "profile"},
                    {"selinuxLabel", "label"}}));
}

TEST(RuntimeConfig, WritesMountsAndNamespacesAndMappings) {
    RuntimeConfig config;
    config.root = {"rootfs", true};
    config.mounts = {{"/proc", "proc", "proc", {}},
                     {"/x", "bind", "/y", std::vector<std::string>{"rbind", "ro"}}};
    config.linux_.namespaces = {{"mount", {}}, {"user", "/proc/1/ns/user"}};
    config.linux_.uidMappings = {{1000, 0, 1}};
    config.linux_.rootfsPropagation = "slave";
    const auto json = written(config);
    EXPECT_EQ(json.at("ociVersion"), "1.0.0");
    EXPECT_EQ(json.at("root"), Json({{"path", "rootfs"}, {"readonly", true}}));
    EXPECT_EQ(json.at("mounts")[0], Json({{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}}));
    EXPECT_EQ(json.at("mounts")[1].at("options"), Json({"rbind", "ro"}));
    EXPECT_EQ(json.at("/linux/namespaces"_json_pointer),
              Json::array({{{"type", "mount"}}, {{"type", "user"}, {"path", "/proc/1/ns/user"}}}));
    EXPECT_EQ(json.at("/linux/uidMappings"_json_pointer),
              Json::array({{{"containerID", 1000}, {"hostID", 0}, {"size", 1}}}));
    EXPECT_FALSE(json.at("linux").contains("gidMappings"));
    EXPECT_FALSE(json.at("linux").contains("resources"));
    EXPECT_FALSE(json.at("linux").contains("cgroupsPath"));
    EXPECT_EQ(json.at("hooks"), Json::object());
}

TEST(RuntimeConfig, WritesDeviceRulesAndCpus) {
    RuntimeConfig config;
    config.linux_.resources =
        RuntimeResources{{{false, 'a', {}, {}, "rwm"}, {true, 'c', 10, 229, "rw"}}, "0-1"};
    EXPECT_EQ(written(config).at("/linux/resources"_json_pointer),
              Json({{"cpu", {{"cpus", "0-1"}}},
                    {"devices",
                     {{{"allow", false}, {"access", "rwm"}},
                      {{"allow", true}, {"type", "c"}, {"major", 10}, {"minor", 229}, {"access", "rw"}}}}}));
}

TEST(RuntimeConfig, WritesHooksByStage) {
    RuntimeConfig config;
    config.hooks = {{"createRuntime", {{"/h", {"h", "a"}, {"E=1"}, 5}, {"/i", {}, {}, {}}}}};
    EXPECT_EQ(written(config).at("hooks"),
              Json({{"createRuntime",
                     {{{"path", "/h"}, {"args", {"h", "a"}}, {"env", {"E=1"}}, {"timeout", 5}},
                      {{"path", "/i"}}}}}));
}

TEST(RuntimeConfig, EmbedsTheSeccompProfile) {
    RuntimeConfig config;
    config.linux_.seccomp = " {\"defaultAction\": \"SCMP_ACT_ALLOW\"}\n";
    EXPECT_EQ(written(config).at("/linux/seccomp/defaultAction"_json_pointer), "SCMP_ACT_ALLOW");
}

TEST(RuntimeConfig, RefusesASeccompProfileThatIsNoJsonObject) {
    RuntimeConfig config;
    for (const auto* profile : {"", "[]", "{", "{}, \"x\":{}", "{}}", "null", "{\"a\":\"\xFF\"}"}) {
        config.linux_.seccomp = profile;
        EXPECT_THROW(serializeRuntimeConfig(config), Error) << profile;
    }
}

TEST(RuntimeConfig, BytesThatAreNotUtf8DoNotBreakTheFile) {
    RuntimeConfig config;
    std::string bytes;
    for (int byte = 1; byte < 256; ++byte) {
        bytes += static_cast<char>(byte);
    }
    config.process.env = {{"LATIN1", "caf\xE9"}, {"ALL", bytes}, {"CUT", "\xF0\x9F\x98"}};
    config.process.args = {"gr\xC3\xBC\xC3\x9F", "\xF0\x9F\x98\x80"};
    const auto json = written(config);
    EXPECT_EQ(json.at("/process/env/0"_json_pointer), "LATIN1=caf\xEF\xBF\xBD");
    EXPECT_EQ(json.at("/process/env/2"_json_pointer), "CUT=\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    EXPECT_EQ(json.at("/process/args"_json_pointer), Json({"gr\xC3\xBC\xC3\x9F", "\xF0\x9F\x98\x80"}));
    const auto all = json.at("/process/env/1"_json_pointer).get<std::string>();
    EXPECT_EQ(all.substr(4, 127), bytes.substr(0, 127));
}

TEST(RuntimeConfig, RefusesNulCharacters) {
    RuntimeConfig config;
    config.process.args = {std::string("a\0b", 3)};
    EXPECT_THROW(serializeRuntimeConfig(config), Error);
}

TEST(RuntimeConfig, AnnotationsAreWrittenWithAnyKey) {
    RuntimeConfig config;
    config.annotations = {{"", "x"}, {"a\"b", "c\\d"}};
    EXPECT_EQ(written(config).at("annotations"), Json({{"", "x"}, {"a\"b", "c\\d"}}));
}

TEST(CpuList, ListsAreWrittenAsRanges) {
    EXPECT_EQ(formatCpuList({}), "");
    EXPECT_EQ(formatCpuList({0}), "0");
    EXPECT_EQ(formatCpuList({0, 1, 2, 3, 8}), "0-3,8");
    EXPECT_EQ(formatCpuList({1, 3, 4, 1023}), "1,3-4,1023");
}

}  // namespace
}  // namespace sarus::oci::runtime_config_test
