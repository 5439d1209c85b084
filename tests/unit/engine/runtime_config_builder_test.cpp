#include "engine/runtime_config_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace sarus::engine::runtime_config_builder_test {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

const RuntimeDialect crunAsRoot{OciRuntime::crun, true};
const RuntimeDialect runcAsRoot{OciRuntime::runc, true};
const RuntimeDialect crunRootless{OciRuntime::crun, false};
const RuntimeDialect runcRootless{OciRuntime::runc, false};

struct RuntimeConfigBuilderTest : testing::Test {
    ContainerPlan plan;
    SiteConfig config;
    RuntimeInputs inputs;

    RuntimeConfigBuilderTest() {
        config.rootfsFolder = "rootfs";
        plan.args = {"ls", "-l"};
        plan.environment = {{"A", "1"}};
        plan.workdir = "/w";
        plan.uid = 1000;
        plan.gid = 100;
        plan.supplementaryGroups = {100, 200};
        plan.cpus = {0, 1, 2, 5};
        plan.umask = 027;
        plan.ttyGroup = 5;
        plan.annotations = {{"a", "b"}};
    }

    oci::RuntimeConfig make(const RuntimeDialect& dialect) {
        return makeRuntimeConfig(plan, config, dialect, inputs);
    }

    oci::RuntimeMount mount(const RuntimeDialect& dialect, const std::string& destination) {
        for (const auto& candidate : make(dialect).mounts) {
            if (candidate.destination == destination) {
                return candidate;
            }
        }
        return {};
    }

    std::vector<std::string> optionsOf(const RuntimeDialect& dialect, const std::string& destination) {
        return mount(dialect, destination).options.value_or(std::vector<std::string>());
    }

    std::vector<std::string> namespaces(const RuntimeDialect& dialect) {
        std::vector<std::string> types;
        for (const auto& entry : make(dialect).linux_.namespaces) {
            types.push_back(entry.type);
        }
        return types;
    }
};

TEST_F(RuntimeConfigBuilderTest, ProcessHasTheUsersIdentityAndNoPrivileges) {
    for (const auto& dialect : {crunAsRoot, runcAsRoot}) {
        const auto process = make(dialect).process;
        EXPECT_EQ(process.user.uid, 1000U);
        EXPECT_EQ(process.user.gid, 100U);
        EXPECT_EQ(process.user.umask, 027U);
        EXPECT_THAT(process.user.additionalGids, ElementsAre(100, 200));
        EXPECT_EQ(process.env, plan.environment);
        EXPECT_EQ(process.cwd, "/");
        EXPECT_TRUE(process.noNewPrivileges);
        EXPECT_THAT(process.capabilities.bounding, IsEmpty());
        EXPECT_THAT(process.capabilities.effective, IsEmpty());
        EXPECT_THAT(process.capabilities.permitted, IsEmpty());
        EXPECT_THAT(process.capabilities.inheritable, IsEmpty());
        EXPECT_THAT(process.capabilities.ambient, IsEmpty());
    }
}

TEST_F(RuntimeConfigBuilderTest, RootStaysNosuidAndNodevUnderRuntimesWhichWouldClearTheFlags) {
    EXPECT_THAT(optionsOf(crunAsRoot, "/."), ElementsAre("remount", "nosuid", "nodev", "bind"));
    EXPECT_EQ(mount(runcAsRoot, "/.").destination, "");
    EXPECT_EQ(mount(crunRootless, "/.").destination, "");
    plan.readonlyRoot = true;
    EXPECT_THAT(optionsOf(crunAsRoot, "/."), ElementsAre("remount", "nosuid", "nodev", "ro", "bind"));
    EXPECT_THAT(optionsOf(runcAsRoot, "/."), ElementsAre("remount", "nosuid", "nodev", "ro"));
    EXPECT_EQ(mount(runcAsRoot, "/.").type, "tmpfs");
    inputs.rootIsReadonly = true;
    EXPECT_EQ(mount(runcAsRoot, "/.").destination, "");
    EXPECT_THAT(optionsOf(crunAsRoot, "/."), ElementsAre("remount", "nosuid", "nodev", "ro", "bind"));
    for (const auto& dialect : {crunAsRoot, runcAsRoot}) {
        EXPECT_FALSE(make(dialect).root.readonly) << "would clear them";
    }
    for (const auto& dialect : {crunRootless, runcRootless}) {
        EXPECT_TRUE(make(dialect).root.readonly);
        EXPECT_EQ(mount(dialect, "/.").destination, "");
    }
}

TEST_F(RuntimeConfigBuilderTest, PrivilegedMountsAreTheDocumentedOnesInOrder) {
    std::vector<std::string> destinations;
    for (const auto& entry : make(runcAsRoot).mounts) {
        destinations.push_back(entry.destination);
    }
    EXPECT_THAT(destinations, ElementsAre("/proc", "/dev/pts", "/sys", "/sys/fs/cgroup"));
    EXPECT_EQ(mount(runcAsRoot, "/proc").type, "proc");
    EXPECT_THAT(optionsOf(runcAsRoot, "/proc"), ElementsAre("nosuid", "noexec", "nodev"));
    EXPECT_THAT(
        optionsOf(runcAsRoot, "/dev/pts"),
        ElementsAre("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "uid=1000", "gid=5"));
    EXPECT_THAT(optionsOf(runcAsRoot, "/sys"), ElementsAre("nosuid", "noexec", "nodev", "ro"));
    EXPECT_THAT(optionsOf(runcAsRoot, "/sys/fs/cgroup"),
                ElementsAre("nosuid", "noexec", "nodev", "relatime", "ro"));
}

TEST_F(RuntimeConfigBuilderTest, ProcHidesWhatTheHostsHides) {
    inputs.hostProcOptions = {"hidepid=invisible", "gid=7"};
    for (const auto& dialect : {crunAsRoot, runcAsRoot}) {
        plan.privatePid = false;
        EXPECT_THAT(optionsOf(dialect, "/proc"),
                    ElementsAre("nosuid", "noexec", "nodev", "hidepid=invisible", "gid=7"));
        plan.privatePid = true;
        EXPECT_THAT(optionsOf(dialect, "/proc"), ElementsAre("nosuid", "noexec", "nodev"))
            << "it has only processes of the container";
    }
}

TEST_F(RuntimeConfigBuilderTest, WithoutTtyGroupTheTerminalsGroupIsLeftOut) {
    plan.ttyGroup = std::nullopt;
    EXPECT_THAT(optionsOf(runcAsRoot, "/dev/pts"), Not(Contains(StartsWith("gid="))));
}

TEST_F(RuntimeConfigBuilderTest, OnlyMountAndPrivatePidNamespacesAreMade) {
    EXPECT_THAT(namespaces(crunAsRoot), ElementsAre("mount"));
    EXPECT_THAT(namespaces(crunRootless), ElementsAre("mount", "user"));
    plan.privatePid = true;
    EXPECT_THAT(namespaces(runcAsRoot), ElementsAre("mount", "pid"));
    EXPECT_THAT(namespaces(runcRootless), ElementsAre("mount", "pid", "user"));
}

TEST_F(RuntimeConfigBuilderTest, WhatCrunHidesOrMakesReadonlyStaysNosuid) {
    inputs.kernelPaths = {{"/proc/timer_list", false}, {"/sys/firmware", true}, {"/proc/sys", true}};
    EXPECT_EQ(mount(crunAsRoot, "/proc/timer_list").source, "/dev/null");
    EXPECT_THAT(optionsOf(crunAsRoot, "/proc/timer_list"), ElementsAre("bind", "ro", "nosuid", "noexec"));
    EXPECT_EQ(mount(crunAsRoot, "/sys/firmware").type, "tmpfs");
    EXPECT_THAT(optionsOf(crunAsRoot, "/proc/sys"), ElementsAre("rbind", "ro", "nosuid", "noexec", "nodev"));
    const auto section = make(crunAsRoot).linux_;
    EXPECT_THAT(section.maskedPaths, ElementsAre("/proc/kcore", "/proc/latency_stats", "/proc/timer_stats",
                                                 "/proc/sched_debug", "/proc/scsi"));
    EXPECT_THAT(section.readonlyPaths, Not(Contains("/proc/sys")));
    EXPECT_THAT(make(runcAsRoot).linux_.maskedPaths, Contains("/proc/timer_list"));
    EXPECT_THAT(make(crunRootless).linux_.readonlyPaths, Contains("/proc/sys"));
}

TEST_F(RuntimeConfigBuilderTest, KernelFilesAreMaskedOrReadonlyInEveryMode) {
    for (const auto& dialect : {crunAsRoot, runcAsRoot, crunRootless, runcRootless}) {
        const auto section = make(dialect).linux_;
        EXPECT_THAT(section.maskedPaths,
                    ElementsAre("/proc/kcore", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
                                "/proc/sched_debug", "/sys/firmware", "/proc/scsi"));
        EXPECT_THAT(section.readonlyPaths, ElementsAre("/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq",
                                                       "/proc/sys", "/proc/sysrq-trigger"));
        EXPECT_EQ(section.rootfsPropagation, "slave");
        EXPECT_EQ(make(dialect).root.path, "rootfs");
        EXPECT_FALSE(make(dialect).root.readonly);
    }
}

TEST_F(RuntimeConfigBuilderTest, PrivilegedRuncDeniesAllDevicesButTheRequestedOnes) {
    inputs.deviceRules = {{true, 'c', 10, 229, "rw"}};
    const auto resources = make(runcAsRoot).linux_.resources;
    ASSERT_TRUE(resources);
    ASSERT_EQ(resources->devices.size(), 2U);
    EXPECT_FALSE(resources->devices[0].allow);
    EXPECT_EQ(resources->devices[0].type, 'a');
    EXPECT_EQ(resources->devices[0].access, "rwm");
    EXPECT_TRUE(resources->devices[1].allow);
    EXPECT_EQ(resources->devices[1].minor, 229);
    EXPECT_EQ(resources->cpus, "0-2,5");
}

TEST_F(RuntimeConfigBuilderTest, OnlyPrivilegedRuncHasCgroups) {
    inputs.cgroupsPath = "/job/step/sarus-x";
    inputs.deviceRules = {{true, 'c', 10, 229, "rw"}};
    EXPECT_EQ(make(runcAsRoot).linux_.cgroupsPath, "/job/step/sarus-x");
    EXPECT_EQ(make(runcAsRoot).linux_.resources->cpus, std::nullopt)
        << "no controller can be had beside the job's processes";
    for (const auto& dialect : {crunAsRoot, crunRootless, runcRootless}) {
        EXPECT_FALSE(make(dialect).linux_.resources);
        EXPECT_FALSE(make(dialect).linux_.cgroupsPath);
    }
    inputs.cgroupsPath = "sarus-runc-x";
    EXPECT_EQ(make(runcAsRoot).linux_.cgroupsPath, "sarus-runc-x");
    EXPECT_EQ(make(runcAsRoot).linux_.resources->cpus, "0-2,5") << "version 1 has a hierarchy for them";
}

TEST_F(RuntimeConfigBuilderTest, RootlessCrunMapsTheUserOntoTheStartersRoot) {
    const auto result = make(crunRootless);
    ASSERT_EQ(result.linux_.uidMappings.size(), 1U);
    EXPECT_EQ(result.linux_.uidMappings[0].containerId, 1000U);
    EXPECT_EQ(result.linux_.uidMappings[0].hostId, 0U);
    EXPECT_EQ(result.linux_.uidMappings[0].size, 1U);
    ASSERT_EQ(result.linux_.gidMappings.size(), 1U);
    EXPECT_EQ(result.linux_.gidMappings[0].containerId, 100U);
    EXPECT_EQ(result.process.user.uid, 1000U);
    EXPECT_EQ(result.process.user.gid, 100U);
    EXPECT_THAT(result.process.capabilities.permitted, IsEmpty());
}

TEST_F(RuntimeConfigBuilderTest, RootlessRuncGetsItsUserFromSarusEnter) {
    const auto result = make(runcRootless);
    EXPECT_EQ(result.linux_.uidMappings.at(0).containerId, 0U);
    EXPECT_EQ(result.linux_.uidMappings.at(0).hostId, 0U);
    EXPECT_EQ(result.linux_.gidMappings.at(0).containerId, 0U);
    EXPECT_EQ(result.process.user.uid, 0U);
    EXPECT_EQ(result.process.user.gid, 0U);
    EXPECT_THAT(result.process.args, ElementsAre("/dev/.sarus-enter", "--ids=1000:100", "--cpus=0-2,5",
                                                 "--default-workdir=/w", "--", "ls", "-l"));
    EXPECT_THAT(result.process.capabilities.bounding, ElementsAre("CAP_SETFCAP"));
    EXPECT_THAT(result.process.capabilities.effective, ElementsAre("CAP_SETFCAP"));
    EXPECT_THAT(result.process.capabilities.permitted, ElementsAre("CAP_SETFCAP"));
    EXPECT_THAT(result.process.capabilities.inheritable, IsEmpty());
    EXPECT_THAT(result.process.capabilities.ambient, IsEmpty());
    EXPECT_TRUE(result.process.noNewPrivileges);
}

TEST_F(RuntimeConfigBuilderTest, RootlessContainersEnterTheNamespacesTheyHaveInCommon) {
    const auto userNamespace = [](const oci::RuntimeConfig& result) {
        const auto& all = result.linux_.namespaces;
        return std::find_if(all.begin(), all.end(), [](const auto& entry) { return entry.type == "user"; })
            ->path;
    };
    EXPECT_EQ(userNamespace(make(crunRootless)), std::nullopt);
    inputs.userNamespace = "/proc/1/fd/7";
    EXPECT_EQ(userNamespace(make(crunRootless)), "/proc/1/fd/7");
    EXPECT_EQ(make(crunRootless).linux_.uidMappings.at(0).containerId, 1000U);
    inputs.payloadNamespace = 5;
    EXPECT_EQ(userNamespace(make(runcRootless)), "/proc/1/fd/7");
    EXPECT_THAT(make(runcRootless).process.args,
                ElementsAre("/dev/.sarus-enter", "--ids=1000:100", "--namespace=5", "--cpus=0-2,5",
                            "--default-workdir=/w", "--", "ls", "-l"));
}

TEST_F(RuntimeConfigBuilderTest, RootlessHooksInsideKeepTheirCapabilities) {
    const RuntimeDialect dialect{OciRuntime::crun, false};
    plan.hooks = {{.name = "10-x", .stage = "createRuntime", .hook = {}}};
    EXPECT_EQ(make(dialect).process.user.uid, 1000U);
    plan.hooks.push_back({.name = "20-x", .stage = "createContainer", .hook = {}});
    EXPECT_EQ(make(dialect).process.args.at(1), "--ids=1000:100");
    EXPECT_EQ(make(dialect).linux_.uidMappings.at(0).containerId, 0U);
    EXPECT_EQ(make(crunAsRoot).process.user.uid, 1000U);
}

// It would follow the user's links with its own rights.
TEST_F(RuntimeConfigBuilderTest, RuntimesLookUpNeitherTheWorkingDirectoryNorTheProgram) {
    for (const auto& dialect : {crunAsRoot, runcAsRoot, crunRootless}) {
        plan.workdirChosen = false;
        auto process = make(dialect).process;
        EXPECT_EQ(process.cwd, "/");
        EXPECT_THAT(process.args, ElementsAre("/dev/.sarus-enter", "--cpus=0-2,5", "--default-workdir=/w",
                                              "--", "ls", "-l"));
        plan.workdirChosen = true;
        process = make(dialect).process;
        EXPECT_EQ(process.cwd, "/");
        EXPECT_THAT(process.args,
                    ElementsAre("/dev/.sarus-enter", "--cpus=0-2,5", "--workdir=/w", "--", "ls", "-l"));
    }
}

// crun opens the pipe for writing, and waits for a reader that may have been killed.
TEST_F(RuntimeConfigBuilderTest, OnlyCrunsHooksInTheContainerGetThePipeFromCrun) {
    plan.hookOutput = "/bundle/hooks-log";
    plan.hooks = {{.name = "10-x", .stage = "createRuntime", .hook = {}},
                  {.name = "20-x", .stage = "poststop", .hook = {}}};
    EXPECT_EQ(make(crunAsRoot).annotations, plan.annotations);
    plan.hooks.push_back({.name = "30-x", .stage = "startContainer", .hook = {}});
    EXPECT_EQ(make(runcAsRoot).annotations, plan.annotations);
    EXPECT_THAT(make(crunAsRoot).annotations,
                IsSupersetOf({std::pair<const std::string, std::string>{"run.oci.hooks.stdout",
                                                                        "/bundle/hooks-log.stdout"},
                              {"run.oci.hooks.stderr", "/bundle/hooks-log"}}));
}

TEST_F(RuntimeConfigBuilderTest, CommandsGetTheirUserAsTheirContainerDid) {
    EXPECT_EQ(make({OciRuntime::crun, false, true}).process.user.uid, 0U);
    EXPECT_EQ(make({OciRuntime::crun, false, false}).process.user.uid, 1000U);
}

TEST_F(RuntimeConfigBuilderTest, RootlessBindsTheHostsProcAndSys) {
    for (const auto& dialect : {crunRootless, runcRootless}) {
        EXPECT_EQ(mount(dialect, "/proc").type, "bind");
        EXPECT_EQ(mount(dialect, "/proc").source, "/proc");
        EXPECT_THAT(optionsOf(dialect, "/proc"), Contains("rbind"));
        EXPECT_EQ(mount(dialect, "/sys").type, "bind");
        EXPECT_THAT(optionsOf(dialect, "/sys"), Contains("rbind"));
        EXPECT_THAT(optionsOf(dialect, "/sys"), Contains("ro"));
        EXPECT_EQ(mount(dialect, "/sys/fs/cgroup").destination, "");
    }
}

TEST_F(RuntimeConfigBuilderTest, RootlessPrivatePidNamespaceHasItsOwnProc) {
    plan.privatePid = true;
    EXPECT_EQ(mount(crunRootless, "/proc").type, "proc");
}

TEST_F(RuntimeConfigBuilderTest, RootlessHasNeitherGroupsNorATtyGroup) {
    for (const auto& dialect : {crunRootless, runcRootless}) {
        EXPECT_THAT(make(dialect).process.user.additionalGids, IsEmpty());
        EXPECT_THAT(optionsOf(dialect, "/dev/pts"),
                    Not(Contains(AnyOf(StartsWith("gid="), StartsWith("uid=")))));
    }
}

TEST_F(RuntimeConfigBuilderTest, SiteSecuritySettingsReachTheRuntime) {
    config.apparmorProfile = "profile";
    config.selinuxLabel = "label";
    config.selinuxMountLabel = "mount-label";
    inputs.seccompProfile = "{}";
    const auto result = make(crunAsRoot);
    EXPECT_EQ(result.process.apparmorProfile, "profile");
    EXPECT_EQ(result.process.selinuxLabel, "label");
    EXPECT_EQ(result.linux_.mountLabel, "mount-label");
    EXPECT_EQ(result.linux_.seccomp, "{}");
}

TEST_F(RuntimeConfigBuilderTest, RootInsideHasTheIdsOfTheStarter) {
    plan.remapRoot = true;
    inputs.uids = {1, 65536, 10};
    const auto pairs = [](const std::vector<oci::RuntimeIdMapping>& mappings) {
        std::vector<std::tuple<unsigned, unsigned, unsigned>> all;
        for (const auto& mapping : mappings) {
            all.emplace_back(mapping.containerId, mapping.hostId, mapping.size);
        }
        return all;
    };
    for (const auto& dialect : {crunRootless, runcRootless}) {
        const auto result = make(dialect);
        EXPECT_THAT(
            pairs(result.linux_.uidMappings),
            ElementsAre(std::tuple(0U, 0U, 1U), std::tuple(1U, 1U, 65536U), std::tuple(65537U, 65537U, 10U)));
        EXPECT_THAT(pairs(result.linux_.gidMappings), ElementsAre(std::tuple(0U, 0U, 1U)));
        EXPECT_EQ(result.process.user.uid, 0U);
        EXPECT_TRUE(result.process.noNewPrivileges);
        EXPECT_THAT(result.process.args, Contains("--root"));
        EXPECT_THAT(result.process.capabilities.effective, Not(Contains("CAP_SYS_ADMIN")));
    }
}

TEST_F(RuntimeConfigBuilderTest, TerminalLimitsAndAnnotationsArePassedOn) {
    plan.terminal = true;
    inputs.rlimits = {{"RLIMIT_FSIZE", 1, 2}};
    const auto result = make(crunAsRoot);
    EXPECT_TRUE(result.process.terminal);
    ASSERT_EQ(result.process.rlimits.size(), 1U);
    EXPECT_EQ(result.process.rlimits[0].type, "RLIMIT_FSIZE");
    EXPECT_EQ(result.annotations, plan.annotations);
}

}  // namespace
}  // namespace sarus::engine::runtime_config_builder_test
