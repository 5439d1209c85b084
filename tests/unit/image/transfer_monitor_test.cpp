#include "image/transfer_monitor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.hpp"
#include "scratch.hpp"

namespace sarus::image {

namespace {

using testing::HasSubstr;

/// Looks every 25 ms, as often as a shell script lasts which runs in `scratch`.
void follow(const test::Scratch& scratch, const std::string& script, const std::string& server,
            RegistryTimings timings = {400, 100}) {
    TransferMonitor monitor({.directory = scratch.path("files"), .server = server, .image = "s/i:1", .timings = timings});
    runTool({.path = "/bin/sh", .args = {"sh", "-c", cat("cd ", scratch.path("files"), "; ", script)}}, ToolStreams::captureBoth,
            "dash", monitor.watch());
}

}  // namespace

TEST(TransferMonitor, givesUpWhenNothingGrows) {
    const test::Scratch scratch;
    createDirectories(scratch.path("files"));
    testing::internal::CaptureStderr();
    const auto begin = std::chrono::steady_clock::now();
    try {
        follow(scratch, "echo x >a; exec sleep 60", "s");
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "Failed to pull image 's/i:1'");
        EXPECT_THAT(error.hint(), HasSubstr("The registry 's' has sent nothing for "));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("[WARN] The registry 's' has sent nothing for 1"));
}

TEST(TransferMonitor, whateverGrowsIsNoStall) {
    const test::Scratch scratch;
    createDirectories(scratch.path("files"));
    testing::internal::CaptureStderr();
    // Longer than the limit in all, and each file leaves when it is complete.
    EXPECT_NO_THROW(
        follow(scratch, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo x >>a; sleep 0.2; done; mv a ..", "s", {1600, 1600}));
    testing::internal::GetCapturedStderr();
}

TEST(TransferMonitor, thisMachineIsNotSuspected) {
    const test::Scratch scratch;
    createDirectories(scratch.path("files"));
    EXPECT_NO_THROW(follow(scratch, "sleep 0.6", ""));
}

}  // namespace sarus::image
