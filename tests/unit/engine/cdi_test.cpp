#include "engine/cdi.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::engine::cdi_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

CdiFiles::File file(std::string path, std::size_t priority, std::string_view deviceEdits,
                    std::string_view common = R"("env": ["COMMON=1"])", std::string_view kind = "v.com/gpu") {
    return {.spec = oci::parseCdiSpec(
                cat(R"({"cdiVersion": "1.1.0", "kind": ")", kind, R"(", "containerEdits": {)", common,
                    R"(}, "devices": [{"name": "0", "containerEdits": {)", deviceEdits,
                    R"(}}, {"name": "all", "containerEdits": {"env": ["ALL=1"]}}]})"),
                path),
            .priority = priority};
}

struct CdiTest : testing::Test {
    CdiFiles found{.files = {}, .problems = {}, .directories = {"/etc/cdi", "/var/run/cdi"}};
    HostFacts facts;
    ContainerPlan plan;

    CdiTest() {
        facts.privileged = true;
        facts.hookOutput = "/bundle/hooks-log";
        plan.gid = 100;
        plan.supplementaryGroups = {100, 200};
        plan.environment = {{"A", "old"}, {"C", "old"}};
    }

    std::string errorOf(const std::vector<std::string>& names) {
        try {
            resolveCdiDevices(found, names);
        } catch (const Error& error) {
            return cat(error.what(), " | ", error.hint());
        }
        return "no error";
    }

    void apply(std::string_view edits) {
        found.files = {file("/etc/cdi/v.json", 0, edits, "")};
        applyCdiEdits(resolveCdiDevices(found, {"v.com/gpu=0"}), facts, plan);
    }

    std::string refusal(std::string_view edits) {
        try {
            apply(edits);
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }
};

TEST_F(CdiTest, AQualifiedNameIsACdiRequestAndAPathIsNot) {
    EXPECT_TRUE(isCdiRequest("v.com/gpu=0"));
    EXPECT_FALSE(isCdiRequest("/dev/fuse:/dev/x=y"));
    EXPECT_THAT(cdiRequests({"v.com/gpu=1", "/dev/fuse", "v.com/gpu=0", "v.com/gpu=1"}),
                ElementsAre("v.com/gpu=1", "v.com/gpu=0"));
}

TEST_F(CdiTest, TheEditsOfAFileComeOnceAndBeforeThoseOfItsDevices) {
    found.files = {file("/etc/cdi/v.json", 0, R"("env": ["ZERO=1"])")};
    const auto edits = resolveCdiDevices(found, {"v.com/gpu=0", "v.com/gpu=all"});
    ASSERT_EQ(edits.size(), 3U);
    EXPECT_THAT(edits[0].edits.env, ElementsAre(Pair("COMMON", "1")));
    EXPECT_THAT(edits[1].edits.env, ElementsAre(Pair("ZERO", "1")));
    EXPECT_THAT(edits[2].edits.env, ElementsAre(Pair("ALL", "1")));
    EXPECT_EQ(edits[2].device, "v.com/gpu=all");
}

TEST_F(CdiTest, ALaterDirectoryHidesDevicesOfAnEarlierOne) {
    found.files = {file("/var/run/cdi/v.json", 1, R"("env": ["HIGH=1"])", ""),
                   file("/etc/cdi/v.json", 0, R"("env": ["LOW=1"])", ""),
                   file("/etc/cdi/w.json", 0, R"("env": ["LOW=2"])", "")};
    const auto edits = resolveCdiDevices(found, {"v.com/gpu=0"});
    ASSERT_EQ(edits.size(), 1U);
    EXPECT_EQ(edits[0].file, "/var/run/cdi/v.json");
}

TEST_F(CdiTest, TheSameDeviceTwiceWithEqualPriorityIsAConflict) {
    found.files = {file("/etc/cdi/v.json", 0, R"("env": ["A=1"])"),
                   file("/etc/cdi/w.json", 0, R"("env": ["A=1"])")};
    EXPECT_THAT(
        errorOf({"v.com/gpu=0"}),
        HasSubstr("The CDI device 'v.com/gpu=0' is described twice: by /etc/cdi/v.json and /etc/cdi/w.json"));
}

TEST_F(CdiTest, AnUnknownDeviceIsExplained) {
    EXPECT_EQ(errorOf({"v.com/gpu=0"}),
              "Unknown CDI device 'v.com/gpu=0' | No CDI file in /etc/cdi, /var/run/cdi describes v.com/gpu");
    found.files = {file("/etc/cdi/v.json", 0, R"("env": ["A=1"])")};
    EXPECT_EQ(errorOf({"v.com/gpu=7"}),
              "Unknown CDI device 'v.com/gpu=7' | The devices of v.com/gpu are: 0, all");
    found.problems = {"/etc/cdi/x.json: not valid JSON"};
    EXPECT_EQ(errorOf({"w.com/nic=0"}),
              "The CDI device 'w.com/nic=0' is not found, and a file of CDI devices cannot be used: "
              "/etc/cdi/x.json: not valid JSON | No CDI file in /etc/cdi, /var/run/cdi describes w.com/nic; "
              "the kinds are: v.com/gpu");
    EXPECT_THAT(errorOf({"v.com/gpu=0", "v.com/gpu=1"}),
                HasSubstr("The CDI device 'v.com/gpu=1' is not found"));
    found = {};
    EXPECT_THAT(errorOf({"v.com/gpu=0"}),
                HasSubstr("switched off at this site (`cdiSpecDirs` in sarus.json)"));
}

TEST_F(CdiTest, VariablesReplaceThoseOfTheSameName) {
    apply(R"("env": ["C=new", "B=1", "B=2", "D="])");
    EXPECT_THAT(plan.environment,
                ElementsAre(Pair("A", "old"), Pair("B", "2"), Pair("C", "new"), Pair("D", "")));
}

TEST_F(CdiTest, DeviceNodesReplaceThoseOfTheSamePath) {
    plan.devices = {{.source = "/dev/x",
                     .destination = "/dev//y",
                     .access = "r",
                     .origin = MountOrigin::user,
                     .request = "/dev/x"}};
    apply(
        R"("deviceNodes": [{"path": "/dev/y", "hostPath": "/dev/h", "permissions": "mr"}, {"path": "/dev/z"},
                             {"path": "/dev/w", "permissions": "none"}])");
    ASSERT_EQ(plan.devices.size(), 3U);
    EXPECT_EQ(plan.devices[0].source, "/dev/h");
    EXPECT_EQ(plan.devices[0].destination, "/dev/y");
    EXPECT_EQ(plan.devices[0].access, "rm");
    EXPECT_EQ(plan.devices[0].origin, MountOrigin::cdi);
    EXPECT_EQ(plan.devices[0].request, "v.com/gpu=0 (/etc/cdi/v.json)");
    EXPECT_EQ(plan.devices[1].source, "/dev/z");
    EXPECT_EQ(plan.devices[1].access, "rwm");
    EXPECT_EQ(plan.devices[2].access, "");
}

TEST_F(CdiTest, MountsAreSortedByTheDepthOfTheirDestinations) {
    plan.mounts = {{.source = "/s", .destination = "/a/b/c", .request = "user"},
                   {.source = "/s2", .destination = "/q", .request = "user"}};
    apply(
        R"("mounts": [{"hostPath": "/h", "containerPath": "/a/b", "options": ["ro", "rbind", "nodev", "noexec", "rprivate"]},
                        {"hostPath": "/h2", "containerPath": "/q", "type": "bind"}])");
    ASSERT_EQ(plan.mounts.size(), 4U);
    EXPECT_EQ(plan.mounts[0].source, "/s2");
    EXPECT_EQ(plan.mounts[1].source, "/h2");
    EXPECT_EQ(plan.mounts[2].destination, "/a/b");
    EXPECT_TRUE(plan.mounts[2].readonly);
    EXPECT_TRUE(plan.mounts[2].nodev);
    EXPECT_TRUE(plan.mounts[2].noexec);
    EXPECT_FALSE(plan.mounts[1].readonly);
    EXPECT_EQ(plan.mounts[3].destination, "/a/b/c");
}

TEST_F(CdiTest, HooksComeAfterThoseOfTheHookFiles) {
    plan.hooks = {{.name = "site", .stage = "createContainer", .hook = {}}};
    apply(R"("hooks": [{"hookName": "createContainer", "path": "/usr/bin/h", "args": ["h", "x"]}])");
    ASSERT_EQ(plan.hooks.size(), 2U);
    EXPECT_EQ(plan.hooks[1].name, "v.com/gpu=0");
    EXPECT_EQ(plan.hooks[1].hook.path, "/usr/bin/h");
    EXPECT_EQ(plan.hookOutput, "/bundle/hooks-log");
}

TEST_F(CdiTest, GroupsAreAddedWherePrivilegesAllow) {
    apply(R"("additionalGids": [0, 44, 100, 200, 44])");
    EXPECT_THAT(plan.supplementaryGroups, ElementsAre(100, 200, 44));
    EXPECT_THAT(plan.warnings, IsEmpty());
    facts.privileged = false;
    plan.supplementaryGroups = {100, 200};
    apply(R"("additionalGids": [44, 200])");
    EXPECT_THAT(plan.supplementaryGroups, ElementsAre(100, 200));
    EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("wants the group 44, but you are not a member")));
}

TEST_F(CdiTest, WhatTheEngineDoesNotDoIsRefusedByName) {
    EXPECT_THAT(
        refusal(R"("intelRdt": {"closID": "x"})"),
        HasSubstr(
            "The CDI device 'v.com/gpu=0' (/etc/cdi/v.json) asks for intelRdt, which is not supported"));
    EXPECT_THAT(refusal(R"("netDevices": [{"hostInterfaceName": "x", "name": "y"}])"),
                HasSubstr("asks for network devices, which is not supported"));
    EXPECT_THAT(refusal(R"("mounts": [{"hostPath": "tmpfs", "containerPath": "/a", "type": "tmpfs"}])"),
                HasSubstr("asks for a mount of type 'tmpfs' on /a: only bind mounts are supported"));
    EXPECT_THAT(refusal(R"("mounts": [{"hostPath": "/a", "containerPath": "/a", "options": ["idmap"]}])"),
                HasSubstr("asks for the mount option 'idmap', which is not supported"));
    for (const auto* path : {"/", "/dev", "/proc/driver", "/sys", "/a/../dev"}) {
        EXPECT_THAT(refusal(cat(R"("mounts": [{"hostPath": "/a", "containerPath": ")", path, R"("}])")),
                    HasSubstr("cannot be provided"));
        EXPECT_THAT(refusal(cat(R"("deviceNodes": [{"path": ")", path, R"("}])")),
                    HasSubstr("cannot be provided"));
    }
}

TEST_F(CdiTest, WithoutCdiDevicesThePlanStaysAsItWas) {
    plan.mounts = {{.source = "/s", .destination = "/a/b", .request = "user"},
                   {.source = "/s", .destination = "/a", .request = "user"}};
    applyCdiEdits({}, facts, plan);
    EXPECT_EQ(plan.mounts[0].destination, "/a/b");
}

}  // namespace
}  // namespace sarus::engine::cdi_test
