#include "hook_contracts/shipped_hooks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "oci/hooks/hook_config.hpp"

namespace sarus::hook_contracts::shipped_hooks_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ShippedHooks, AreThoseThatAreBuilt) {
    const auto layers = readFile(cat(SARUS_SOURCE_DIR, "/cmake/Layers.cmake"));
    const auto begin = layers.find("set(SARUS_HOOKS ") + std::string_view("set(SARUS_HOOKS ").size();
    std::vector<std::string> built = splitWords(layers.substr(begin, layers.find(')', begin) - begin));
    std::vector<std::string> shipped;
    for (auto& name : built) {
        name += "_hook";
    }
    for (const auto& hook : shippedHooks()) {
        shipped.emplace_back(hook.program);
    }
    EXPECT_THAT(shipped, testing::UnorderedElementsAreArray(built));
}

TEST(ShippedHooks, SupportStagesThatExist) {
    const auto& known = oci::hookStages();
    for (const auto& hook : shippedHooks()) {
        EXPECT_FALSE(hook.stages.empty()) << hook.program;
        for (const auto stage : hook.stages) {
            EXPECT_NE(std::find(known.begin(), known.end(), stage), known.end())
                << hook.program << ": " << stage;
        }
    }
}

TEST(ShippedHooks, AreFoundByNameAndByPath) {
    ASSERT_NE(findShippedHook("mpi_hook"), nullptr);
    EXPECT_EQ(findShippedHook("/opt/sarus/bin/mpi_hook"), findShippedHook("mpi_hook"));
    EXPECT_EQ(findShippedHook("/usr/bin/true"), nullptr);
    EXPECT_EQ(findShippedHook("/opt/mpi_hook/"), nullptr);
}

TEST(ShippedHooks, SayWhichStagesTheySupport) {
    EXPECT_EQ(explainUnsupportedStage("/opt/sarus/bin/ldcache_hook", "poststart"),
              "ldcache_hook does not support the stage poststart (supported: prestart, createRuntime, "
              "createContainer)");
    EXPECT_EQ(explainUnsupportedStage("pce_hook", "createContainer"),
              "pce_hook does not support the stage createContainer (supported: precreate)");
    EXPECT_EQ(explainUnsupportedStage("mpi_hook", "createContainer"), std::nullopt);
    EXPECT_EQ(explainUnsupportedStage("timestamp_hook", "poststop"), std::nullopt);
    EXPECT_EQ(explainUnsupportedStage("/usr/bin/true", "startContainer"), std::nullopt);
}

std::vector<HookDevice> devicesOf(const std::string& path, std::vector<std::string> args,
                                  std::vector<std::string> env = {}) {
    const oci::RuntimeHook hook{.path = path, .args = std::move(args), .env = std::move(env), .timeout = {}};
    return devicesOfHook({.hook = hook, .variable = {}, .readFiles = {}});
}

TEST(HookDevices, OfTheMountHookAreThoseOfItsArguments) {
    EXPECT_THAT(devicesOf("/opt/sarus/bin/mount_hook", {"mount_hook", "--mount=type=bind,src=/a,dst=/b",
                                                        "--device=/dev/x:/dev/y:r", "--device", "/dev/z"}),
                ElementsAre(HookDevice{"/dev/x", "r"}, HookDevice{"/dev/z", "rwm"}));
}

TEST(HookDevices, WhatTheHookWouldRefuseIsLeftOut) {
    EXPECT_THAT(devicesOf("/bin/mount_hook", {"mount_hook", "--device=relative", "--device=/dev/x:rwx",
                                              "--devices=/dev/x", "--device"}),
                IsEmpty());
    EXPECT_THAT(devicesOf("/bin/mount_hook", {}), IsEmpty());
}

TEST(HookDevices, OfTheMpiHookAreAmongItsBindMounts) {
    EXPECT_THAT(devicesOf("/bin/mpi_hook", {"mpi_hook"},
                          {"MPI_LIBS=/dev/no", "BIND_MOUNTS=/dev/cxi0::relative:/var/spool"}),
                ElementsAre(HookDevice{"/dev/cxi0", "rw"}, HookDevice{"/var/spool", "rw"}));
    EXPECT_THAT(devicesOf("/bin/mpi_hook", {"mpi_hook"}), IsEmpty());
}

TEST(HookDevices, OfTheAmdGpuHookAreThoseThatItMayChooseFrom) {
    EXPECT_THAT(devicesOf("/bin/amdgpu_hook", {}),
                ElementsAre(HookDevice{"/dev/kfd", "rw"}, HookDevice{"/dev/dri", "rw"}));
}

TEST(HookDevices, OtherProgramsAreNotUnderstood) {
    EXPECT_THAT(devicesOf("/bin/site_hook", {"site_hook", "--device=/dev/x"}, {"BIND_MOUNTS=/dev/x"}),
                IsEmpty());
}

}  // namespace
}  // namespace sarus::hook_contracts::shipped_hooks_test
