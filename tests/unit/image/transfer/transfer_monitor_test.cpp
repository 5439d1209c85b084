#include "image/transfer/transfer_monitor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/error.hpp"
#include "base/eventually.hpp"
#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"
#include "image/scratch.hpp"

namespace sarus::image::transfer_monitor_test {
namespace {

using testing::HasSubstr;

/// Looks every 25 ms, as often as a shell script lasts which runs in `scratch`.
void follow(const test::Scratch& scratch, const std::string& script, const std::string& server,
            RegistryTimings timings = {400, 100}) {
    TransferMonitor monitor(
        {.directory = scratch.path("files"), .server = server, .image = "s/i:1", .timings = timings});
    runTool({.path = "/bin/sh", .args = {"sh", "-c", cat("cd ", scratch.path("files"), "; ", script)}},
            ToolStreams::captureBoth, "dash", monitor.watch());
}

TEST(TransferMonitor, givesUpWhenNothingGrows) {
    const test::Scratch scratch;
    createDirectories(scratch.path("files"));
    testing::internal::CaptureStderr();
    try {
        follow(scratch, "echo x >a; exec sleep 60", "s");
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "Failed to pull image 's/i:1'");
        EXPECT_THAT(error.hint(), HasSubstr("The registry 's' has sent nothing for "));
    }
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("[WARN] The registry 's' has sent nothing for 1"));
}

TEST(TransferMonitor, aCredentialHelperThatHangsIsNamedAndEnds) {
    const test::Scratch scratch;
    createDirectories(scratch.path("files"));
    const auto helper = scratch.write("docker-credential-hangs", "#!/bin/sh\necho $$ >../pid\nsleep 60\n");
    ::chmod(helper.c_str(), 0755);
    testing::internal::CaptureStderr();
    try {
        follow(scratch, cat(helper, " get; exit 1"), "s", {4000, 1000});
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_THAT(error.hint(),
                    HasSubstr("The credential helper 'docker-credential-hangs' has not answered for "));
    }
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("[WARN] The credential helper 'docker-credential-hangs'"));
    const auto pid = parseNumber(trim(readFile(scratch.path("pid"))));
    ASSERT_TRUE(pid);
    const Process process(static_cast<pid_t>(*pid));
    EXPECT_TRUE(test::eventually([&] { return !process.isRunning(); }));
}

TEST(TransferMonitor, whateverGrowsIsNoStall) {
    const test::Scratch scratch;
    createDirectories(scratch.path("files"));
    testing::internal::CaptureStderr();
    // Longer than the limit in all, and each file leaves when it is complete.
    EXPECT_NO_THROW(follow(scratch,
                           "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo x >>a; sleep 0.2; done; mv a ..",
                           "s", {1600, 1600}));
    testing::internal::GetCapturedStderr();
}

TEST(TransferMonitor, thisMachineIsNotSuspected) {
    const test::Scratch scratch;
    createDirectories(scratch.path("files"));
    EXPECT_NO_THROW(follow(scratch, "sleep 0.6", ""));
}

TEST(TransferMonitor, aTerminalGetsOneLineThatIsRewrittenAndWiped) {
    const test::Scratch scratch;
    createDirectories(scratch.path("files"));
    int primary = -1;
    int secondary = -1;
    ASSERT_EQ(::openpty(&primary, &secondary, nullptr, nullptr, nullptr), 0);
    const UniqueFd reader(primary);
    const UniqueFd before(::dup(STDERR_FILENO));
    ::dup2(secondary, STDERR_FILENO);
    ::close(secondary);
    {
        TransferMonitor monitor({.label = "Downloading layers",
                                 .directory = scratch.path("files"),
                                 .totalBytes = 4096,
                                 .timings = {400, 400}});
        runTool(
            {.path = "/bin/sh",
             .args = {"sh", "-c", cat("cd ", scratch.path("files"), "; head -c 1024 /dev/zero >a; sleep 2")}},
            ToolStreams::captureBoth, "dash", monitor.watch());
    }
    ::dup2(before.get(), STDERR_FILENO);  // nobody has the terminal any more: reading ends
    std::string shown;
    std::array<char, 1024> part{};
    for (ssize_t size = 0; (size = ::read(reader.get(), part.data(), part.size())) > 0;) {
        shown.append(part.data(), static_cast<std::size_t>(size));
    }
    EXPECT_TRUE(shown.starts_with("\rDownloading layers: 1024.00B of 4.00KB, ")) << shown;
    EXPECT_THAT(shown, HasSubstr(" s left\033[K\rDownloading"));
    EXPECT_TRUE(shown.ends_with("\r\033[K")) << shown;
    EXPECT_EQ(shown.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace sarus::image::transfer_monitor_test
