#include "starter/image/loop_device.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "starter/small_files.hpp"
#include "starter/system_calls.hpp"

namespace sarus::starter::loop_device_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr const char* mounting = "mount squashfs on m (ro,nosuid,nodev;threads=percpu)";

/// The calls alone; what the kernel makes of them is in loop_device_as_root_test.cpp.
class LoopDeviceCalls : public ::testing::Test {
protected:
    LoopDeviceCalls() { prepare(); }

    std::string prepare() {
        directory = std::make_unique<test::TemporaryDirectory>();
        createDirectories(*directory / "host");
        createDirectories(*directory / "m");
        test::makeSquashfsFile(*directory / "image");
        return directory->path();
    }

    void mount() const {
        const auto image = openFile(*directory / "image", O_RDONLY);
        LoopMountOptions options;
        options.registryDir = "/registry";
        options.lockTimeout = std::chrono::milliseconds(1);
        mountThroughLoopDevice(image.get(), "IMAGE", *directory / "m", options);
    }

    /// What was thrown.
    std::pair<std::string, std::string> refusedMount() const {
        try {
            mount();
        } catch (const Error& error) {
            return {error.what(), error.hint()};
        }
        return {};
    }

    std::unique_ptr<test::TemporaryDirectory> directory;
};

TEST_F(LoopDeviceCalls, TheFirstStartBindsADeviceAndWritesItDown) {
    test::SystemCalls calls(directory->path());
    mount();
    EXPECT_THAT(calls.made(),
                ElementsAre("mkdir host/registry", "open /dev/loop-control", "LOOP_CTL_GET_FREE",
                            "open /dev/loop0", "LOOP_CONFIGURE loop0", mounting, "BLKGETDISKSEQ loop0"));
    calls.forget();
    mount();
    EXPECT_THAT(calls.made(), ElementsAre("mkdir host/registry", "open /dev/loop0", "BLKGETDISKSEQ loop0",
                                          "LOOP_GET_STATUS64 loop0", "BLKGETSIZE64 loop0", mounting))
        << "the next one shares it";
}

TEST_F(LoopDeviceCalls, ADeviceThatHoldsSomethingElseIsNotShared) {
    test::SystemCalls calls(directory->path());
    mount();
    test::makeSquashfsFile(*directory / "image", 8192);
    calls.forget();
    mount();
    EXPECT_THAT(calls.made(),
                ElementsAre("mkdir host/registry", "open /dev/loop-control", "LOOP_CTL_GET_FREE",
                            "open /dev/loop1", "LOOP_CONFIGURE loop1", mounting, "BLKGETDISKSEQ loop1"));
}

TEST_F(LoopDeviceCalls, OlderKernelsBindInTwoSteps) {
    test::SystemCalls calls(directory->path());
    calls.refuse("LOOP_CONFIGURE", EINVAL);
    mount();
    EXPECT_THAT(calls.made(),
                ElementsAre("mkdir host/registry", "open /dev/loop-control", "LOOP_CTL_GET_FREE",
                            "open /dev/loop0", "LOOP_CONFIGURE loop0", "LOOP_SET_FD loop0",
                            "LOOP_SET_STATUS64 loop0", mounting, "BLKGETDISKSEQ loop0"));
    calls.forget();
    mount();
    EXPECT_EQ(calls.made().back(), mounting);
    EXPECT_EQ(calls.made().size(), 6U) << "and share";
}

TEST_F(LoopDeviceCalls, WhatIsBoundInTwoStepsIsLetGoIfTheSecondFails) {
    test::SystemCalls calls(directory->path());
    calls.refuse("LOOP_CONFIGURE", EINVAL);
    calls.refuse("LOOP_SET_STATUS64", EIO);
    EXPECT_EQ(refusedMount().first, "Failed to attach the image to /dev/loop0: Input/output error");
    EXPECT_EQ(calls.made().back(), "LOOP_CLR_FD loop0");
}

TEST_F(LoopDeviceCalls, ADeviceThatSomebodyElseWasFasterToTakeIsTriedAgain) {
    test::SystemCalls calls(directory->path());
    calls.refuseAt(4, EBUSY);
    mount();
    EXPECT_THAT(calls.made(),
                ElementsAre("mkdir host/registry", "open /dev/loop-control", "LOOP_CTL_GET_FREE",
                            "open /dev/loop0", "LOOP_CONFIGURE loop0", "LOOP_CTL_GET_FREE", "open /dev/loop0",
                            "LOOP_CONFIGURE loop0", mounting, "BLKGETDISKSEQ loop0"));
}

TEST_F(LoopDeviceCalls, AJobThatIsDeniedLoopDevicesIsToldSo) {
    test::SystemCalls calls(directory->path());
    calls.refuse("open /dev/loop-control", EPERM);
    const auto [message, hint] = refusedMount();
    EXPECT_EQ(message, "Failed to open /dev/loop-control: Operation not permitted");
    EXPECT_THAT(hint, StartsWith("the job's device cgroup denies loop devices"));
}

TEST_F(LoopDeviceCalls, KernelsThatCannotChooseDecompressorsAreAskedWithoutOptions) {
    test::SystemCalls calls(directory->path());
    calls.refuse(mounting, EINVAL);
    mount();
    EXPECT_THAT(calls.mounted(), ElementsAre("m"));
    calls.refuse("mount squashfs on m (ro,nosuid,nodev)", EINVAL);
    EXPECT_EQ(
        refusedMount(),
        std::pair(std::string("Failed to mount image IMAGE: Invalid argument"),
                  std::string("The image file is damaged: remove it with 'sarus rmi' and pull it again")));
}

TEST_F(LoopDeviceCalls, ARefusedCallIsAnErrorAndLeavesNothing) {
    test::failEachCall(
        [this] { return prepare(); }, [this] { mount(); },
        [](const std::string& call, const Error* error, const test::SystemCalls& calls) {
            // These only cost the next start a device of its own.
            const bool needed = !call.starts_with("BLKGETDISKSEQ") && !call.starts_with("mkdir");
            ASSERT_EQ(error != nullptr, needed);
            if (needed) {
                EXPECT_THAT(error->what(), testing::AnyOf(HasSubstr("loop"), HasSubstr("image IMAGE")));
                EXPECT_THAT(error->what(), HasSubstr("Input/output error"));
                EXPECT_FALSE(error->hint().empty());
                EXPECT_THAT(calls.mounted(), IsEmpty());
                EXPECT_EQ(calls.made().back(), call) << "nothing is tried after that";
            }
        });
}

TEST_F(LoopDeviceCalls, ARefusedCallOfASharingStartLeadsToADeviceOfItsOwn) {
    test::failEachCall([this] { return prepare(); },
                       [this] {
                           mount();
                           mount();
                       },
                       [](const std::string& call, const Error* error, const test::SystemCalls& calls) {
                           if (error == nullptr) {
                               EXPECT_EQ(calls.mounted().size(), 2U) << call;
                           }
                       });
}

}  // namespace
}  // namespace sarus::starter::loop_device_test
