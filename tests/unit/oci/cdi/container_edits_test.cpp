#include "oci/cdi/container_edits.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "oci/json/json_node.hpp"

namespace sarus::oci::container_edits_test {
namespace {

using Json = nlohmann::ordered_json;

ContainerEdits read(std::string_view text, EditsDialect dialect = EditsDialect::cdi) {
    const auto json = parseJson<Json>(text, "edits.json");
    return readContainerEdits(JsonNode<Json>(json, "containerEdits", "edits.json"), dialect);
}

std::string failure(std::string_view text, EditsDialect dialect = EditsDialect::cdi) {
    try {
        read(text, dialect);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

TEST(ContainerEdits, everyKeyIsRead) {
    const auto edits = read(R"({
        "env": ["A=1", "B=x=y"],
        "deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b", "type": "c", "major": 195, "minor": 0, "fileMode": 438,
                         "permissions": "rw", "uid": 3, "gid": 44}, {"path": "/dev/plain"}],
        "mounts": [{"hostPath": "/h", "containerPath": "/c", "type": "bind", "options": ["ro", "rbind"]}],
        "hooks": [{"hookName": "createContainer", "path": "/usr/bin/hook", "args": ["hook", "x"], "env": ["P=q"], "timeout": 5}],
        "additionalGids": [44, 109],
        "intelRdt": {"closID": "c", "l3CacheSchema": "l", "memBwSchema": "m", "schemata": ["s"], "enableMonitoring": true},
        "netDevices": [{"hostInterfaceName": "eth9", "name": "net0"}]})");
    ASSERT_EQ(edits.env.size(), 2U);
    EXPECT_EQ(edits.env[1], (std::pair<std::string, std::string>("B", "x=y")));
    ASSERT_EQ(edits.deviceNodes.size(), 2U);
    EXPECT_EQ(edits.deviceNodes[0].hostPath, "/dev/b");
    EXPECT_EQ(edits.deviceNodes[0].major, 195);
    EXPECT_EQ(edits.deviceNodes[0].minor, 0);
    EXPECT_EQ(edits.deviceNodes[0].fileMode, mode_t{0666});
    EXPECT_EQ(edits.deviceNodes[0].permissions, "rw");
    EXPECT_EQ(edits.deviceNodes[0].uid, uid_t{3});
    EXPECT_EQ(edits.deviceNodes[0].gid, gid_t{44});
    EXPECT_FALSE(edits.deviceNodes[1].major.has_value());
    ASSERT_EQ(edits.mounts.size(), 1U);
    EXPECT_EQ(edits.mounts[0].options, (std::vector<std::string>{"ro", "rbind"}));
    ASSERT_EQ(edits.hooks.size(), 1U);
    EXPECT_EQ(edits.hooks[0].stage, "createContainer");
    EXPECT_EQ(edits.hooks[0].hook.args, (std::vector<std::string>{"hook", "x"}));
    EXPECT_EQ(edits.hooks[0].hook.env, std::vector<std::string>{"P=q"});
    EXPECT_EQ(edits.hooks[0].hook.timeout, std::uint64_t{5});
    EXPECT_EQ(edits.additionalGids, (std::vector<gid_t>{44, 109}));
    ASSERT_TRUE(edits.intelRdt.has_value());
    EXPECT_TRUE(edits.intelRdt->enableMonitoring);
    ASSERT_EQ(edits.netDevices.size(), 1U);
    EXPECT_EQ(edits.netDevices[0].name, "net0");
    EXPECT_FALSE(edits.empty());
    EXPECT_TRUE(read("{}").empty());
}

TEST(ContainerEdits, aViolationNamesFileKeyAndWhatWasExpected) {
    EXPECT_EQ(failure(R"({"mount": []})"), "edits.json: containerEdits: unknown key 'mount'");
    EXPECT_EQ(failure(R"({"env": ["A"]})"),
              "edits.json: containerEdits.env[0]: Invalid env entry 'A': expected NAME=VALUE");
    EXPECT_EQ(failure(R"({"env": ["=A"]})"),
              "edits.json: containerEdits.env[0]: Empty environment variable name in '=A'");
    EXPECT_EQ(failure(R"({"env": "A=1"})"),
              "edits.json: containerEdits.env: expected a list of strings NAME=VALUE, found 'A=1'");
    EXPECT_EQ(failure(R"({"deviceNodes": [{}]})"),
              "edits.json: containerEdits.deviceNodes[0]: the required key 'path' is missing");
    EXPECT_EQ(failure(R"({"deviceNodes": [{"path": "dev/x"}]})"),
              "edits.json: containerEdits.deviceNodes[0].path: expected an absolute path, found 'dev/x'");
    EXPECT_EQ(failure(R"({"mounts": [{"hostPath": "/a"}]})"),
              "edits.json: containerEdits.mounts[0]: the required key 'containerPath' is missing");
    EXPECT_EQ(failure(R"({"mounts": [{"hostPath": "/a", "containerPath": "b"}]})"),
              "edits.json: containerEdits.mounts[0].containerPath: expected an absolute path, found 'b'");
    EXPECT_EQ(failure(R"({"mounts": [{"hostPath": "a", "containerPath": "/b"}]})"),
              "edits.json: containerEdits.mounts[0]: hostPath: expected an absolute path, found 'a'");
}

TEST(ContainerEdits, valuesThatCdiDoesNotKnowAreRefused) {
    for (const auto* text : {R"({"deviceNodes": [{"path": "/dev/x", "type": "d"}]})",
                             R"({"deviceNodes": [{"path": "/dev/x", "permissions": "rwx"}]})",
                             R"({"deviceNodes": [{"path": "/dev/x", "major": -1}]})",
                             R"({"deviceNodes": [{"path": "/dev/x", "fileMode": "0666"}]})",
                             R"({"deviceNodes": [{"path": "/dev/x", "uid": 4294967295}]})",
                             R"({"deviceNodes": [{"path": "/dev/x\u0000"}]})",
                             R"({"hooks": [{"hookName": "precreate", "path": "/x"}]})",
                             R"({"hooks": [{"hookName": "poststart", "path": "x"}]})",
                             R"({"hooks": [{"path": "/x"}]})", R"({"additionalGids": [-1]})",
                             R"({"intelRdt": {"enableMonitoring": 1}})", R"({"netDevices": [{"name": "x"}]})",
                             R"([])", R"({"mounts": [{"hostPath": null, "containerPath": "/b"}]})"}) {
        EXPECT_NE(failure(text), "accepted") << text;
    }
}

TEST(ContainerEdits, precreateDialectPassesOverUnknownKeys) {
    const auto edits = read(R"({"env": ["A="], "other": 1, "deviceNodes": [{"path": "/dev/x"}],
        "mounts": [{"hostPath": "rel", "containerPath": "/x", "type": null, "options": ["bind"], "more": 1}]})",
                            EditsDialect::precreate);
    EXPECT_EQ(edits.env[0].second, "");
    EXPECT_EQ(edits.deviceNodes.size(), 1U);
    ASSERT_EQ(edits.mounts.size(), 1U);
    EXPECT_EQ(edits.mounts[0].source, "rel");
    EXPECT_FALSE(edits.mounts[0].type.has_value());
    EXPECT_EQ(failure(R"({"env": null})", EditsDialect::precreate),
              "edits.json: containerEdits.env: expected a list of strings NAME=VALUE, found null");
    EXPECT_EQ(failure(R"({"deviceNodes": [{"path": "/dev/x", "more": 1}]})", EditsDialect::precreate),
              "edits.json: containerEdits.deviceNodes[0]: unknown key 'more'");
}

TEST(ContainerEdits, minimumVersionFollowsTheNewestFeature) {
    EXPECT_EQ(minimumCdiVersion(read(R"({"env": ["A=1"]})")), "0.1.0");
    EXPECT_EQ(
        minimumCdiVersion(read(R"({"mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]})")),
        "0.4.0");
    EXPECT_EQ(minimumCdiVersion(read(R"({"deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/b"}]})")),
              "0.5.0");
    EXPECT_EQ(minimumCdiVersion(read(R"({"additionalGids": [1]})")), "0.7.0");
    EXPECT_EQ(minimumCdiVersion(read(R"({"intelRdt": {"closID": "x"}})")), "0.7.0");
    EXPECT_EQ(minimumCdiVersion(read(R"({"intelRdt": {"schemata": ["x"]}})")), "1.1.0");
    EXPECT_EQ(minimumCdiVersion(read(R"({"netDevices": [{"hostInterfaceName": "x"}]})")), "1.1.0");
}

}  // namespace
}  // namespace sarus::oci::container_edits_test
