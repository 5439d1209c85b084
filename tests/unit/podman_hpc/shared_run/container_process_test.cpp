#include "podman_hpc/shared_run/container_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc::container_process_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ContainerProcess parse(const std::string& process, const std::string& rest = "") {
    const auto parsed = parseContainerProcess(cat("{\"process\": {", process, "}", rest, "}"));
    EXPECT_TRUE(parsed.has_value());
    return parsed.value_or(ContainerProcess{});
}

TEST(ContainerProcess, WhatTheConfigurationSays) {
    const auto process = parse(
        R"("user": {"uid": 5, "gid": 6, "umask": 63, "additionalGids": [7]}, "cwd": "/d", "noNewPrivileges": true,
           "env": ["A=1", "A=2", "HOME=/h", "HOSTNAME=n"], "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 9, "soft": 8}, {"type": "RLIMIT_NEW"}],
           "capabilities": {"bounding": ["CAP_CHOWN", "CAP_NEW"], "effective": ["CAP_CHECKPOINT_RESTORE"], "permitted": []})",
        R"(, "annotations": {"run.oci.keep_original_groups": "1"})");
    EXPECT_EQ(process.uid, 5U);
    EXPECT_EQ(process.gid, 6U);
    EXPECT_EQ(process.umask, 077U);
    EXPECT_THAT(process.groups, ElementsAre(7));
    EXPECT_TRUE(process.keepsGroups);
    EXPECT_TRUE(process.noNewPrivileges);
    EXPECT_THAT(process.environment, ElementsAre("A=2"));
    EXPECT_EQ(process.ownHome, "/h");
    ASSERT_EQ(process.limits.size(), 1U);
    EXPECT_EQ(process.limits[0].value.rlim_max, 9U);
    EXPECT_EQ(process.capabilities.bounding, 1U);
    EXPECT_EQ(process.capabilities.ambient, std::uint64_t{1} << 40U);
}

TEST(ContainerProcess, RootHasAllOfItsBoundingSet) {
    const auto process = parse(R"("capabilities": {"bounding": ["CAP_CHOWN", "CAP_KILL"], "effective": []})");
    EXPECT_EQ(process.capabilities.effective, 0x21U);
    EXPECT_EQ(process.capabilities.inheritable, 0U);
}

TEST(ContainerProcess, WhatOnlyTheRuntimeCanDo) {
    EXPECT_FALSE(parseContainerProcess(R"({"process": {}, "linux": {"seccomp": {}}})"));
    EXPECT_FALSE(parseContainerProcess(R"({"process": {"apparmorProfile": "x"}})"));
    EXPECT_FALSE(parseContainerProcess(R"({"process": {"selinuxLabel": "x"}})"));
    for (const auto* text : {"", "[]", "{}", "{\"process\": 1}", "{\"process\": {\"user\": 1}}",
                             "{\"process\": {\"env\": [1]}}", "{\"process\": {\"rlimits\": [1]}}"}) {
        EXPECT_FALSE(parseContainerProcess(text)) << text;
    }
}

TEST(ContainerProcess, VariablesAsPodmanReadsThem) {
    std::vector<std::string> environment{"A=0"};
    ExecOptions options;
    options.variables = {"A=1=2", " SLURM_*", "HOST", "NONE", "EMPTY="};
    addVariables(environment, options, {"SLURM_B=b", "SLURMX=no", "HOST=h"});
    EXPECT_THAT(environment, ElementsAre("A=1=2", "SLURM_B=b", "HOST=h", "EMPTY="));
    options.variables = {"=x"};
    EXPECT_THROW(addVariables(environment, options, {}), Error);
}

TEST(ContainerProcess, Users) {
    constexpr const char* passwd = "root:x:0:0::/root:/bin/sh\nbad\nann:x:5:6:Ann:/ann:\n";
    constexpr const char* group = "root:x:0:\nstaff:x:8:bob,ann\nann:x:6:\n";
    const auto ann = lookUpUser("ann", passwd, group);
    EXPECT_EQ(ann.uid, 5U);
    EXPECT_EQ(ann.gid, 6U);
    EXPECT_THAT(ann.groups, ElementsAre(8));
    EXPECT_EQ(ann.home, "/ann");
    EXPECT_EQ(lookUpUser("5", passwd, group).gid, 6U);
    const auto other = lookUpUser("9:staff", passwd, group);
    EXPECT_EQ(other.uid, 9U);
    EXPECT_EQ(other.gid, 8U);
    EXPECT_THAT(other.groups, IsEmpty());
    EXPECT_EQ(lookUpUser("9", "", "").home, "");
    for (const auto* name : {"bob", "0:none", "4294967295", "0:4294967295"}) {
        EXPECT_THROW(lookUpUser(name, passwd, group), Error) << name;
    }
}

}  // namespace
}  // namespace sarus::podman_hpc::container_process_test
