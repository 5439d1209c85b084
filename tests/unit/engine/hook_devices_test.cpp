#include "engine/hook_devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sarus::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<HookDevice> devicesOf(const std::string& path, std::vector<std::string> args, std::vector<std::string> env = {}) {
    ContainerPlan plan;
    oci::RuntimeHook hook;
    hook.path = path;
    hook.args = std::move(args);
    hook.env = std::move(env);
    plan.hooks.push_back({"10-x", "createContainer", std::move(hook)});
    return devicesOfHooks(plan);
}

TEST(HookDevices, OfTheMountHookAreThoseOfItsArguments) {
    EXPECT_THAT(devicesOf("/opt/sarus/bin/mount_hook",
                          {"mount_hook", "--mount=type=bind,src=/a,dst=/b", "--device=/dev/x:/dev/y:r", "--device", "/dev/z"}),
                ElementsAre(HookDevice{"/dev/x", "r"}, HookDevice{"/dev/z", "rwm"}));
}

TEST(HookDevices, WhatTheHookWouldRefuseIsLeftOut) {
    EXPECT_THAT(
        devicesOf("/bin/mount_hook", {"mount_hook", "--device=relative", "--device=/dev/x:rwx", "--devices=/dev/x", "--device"}),
        IsEmpty());
    EXPECT_THAT(devicesOf("/bin/mount_hook", {}), IsEmpty());
}

TEST(HookDevices, OfTheMpiHookAreAmongItsBindMounts) {
    EXPECT_THAT(devicesOf("/bin/mpi_hook", {"mpi_hook"}, {"MPI_LIBS=/dev/no", "BIND_MOUNTS=/dev/cxi0::relative:/var/spool"}),
                ElementsAre(HookDevice{"/dev/cxi0", "rw"}, HookDevice{"/var/spool", "rw"}));
    EXPECT_THAT(devicesOf("/bin/mpi_hook", {"mpi_hook"}), IsEmpty());
}

TEST(HookDevices, OfTheAmdGpuHookAreThoseThatItMayChooseFrom) {
    EXPECT_THAT(devicesOf("/bin/amdgpu_hook", {}), ElementsAre(HookDevice{"/dev/kfd", "rw"}, HookDevice{"/dev/dri", "rw"}));
}

TEST(HookDevices, OtherProgramsAreNotUnderstood) {
    EXPECT_THAT(devicesOf("/bin/site_hook", {"site_hook", "--device=/dev/x"}, {"BIND_MOUNTS=/dev/x"}), IsEmpty());
}

}  // namespace
}  // namespace sarus::engine
