#include "image/transfer/transfer_monitor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "base/error.hpp"
#include "base/eventually.hpp"
#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"
#include "image/scratch.hpp"

namespace sarus::image::transfer_monitor_test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

/// A transfer that is looked at as often as it wants, while its time passes by these calls alone.
class Followed {
public:
    explicit Followed(Transfer transfer)
        : files(std::move(transfer.directory)), monitor(with(std::move(transfer)), [this] { return now; }) {
        createDirectories(files);
    }

    /// Lets `time` pass. `before`: what happens before each look.
    void pass(
        std::chrono::milliseconds time, const std::function<void()>& before = [] {}) {
        const auto watch = monitor.watch();
        for (const auto end = now + time; now < end;) {
            now += watch.interval;
            before();
            watch.look(program);
        }
    }

    void receive(std::string_view bytes, const char* file = "layer") const {
        const auto path = cat(files, '/', file);
        writeAll(openFile(path, O_WRONLY | O_CREAT | O_APPEND, 0600).get(), bytes, path);
    }

    std::string files;
    TransferMonitor::Clock::time_point now{};
    pid_t program = 0;  ///< which copies; 0: nobody
    TransferMonitor monitor;

private:
    Transfer with(Transfer transfer) const {
        transfer.directory = files;
        return transfer;
    }
};

/// What giving up says, after warnings on standard error.
std::string hintOf(Followed& followed) {
    try {
        followed.pass(std::chrono::minutes(10));
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "Failed to pull image 's/i:1'");
        return error.hint();
    }
    ADD_FAILURE() << "it did not give up";
    return "";
}

TEST(TransferMonitor, givesUpWhenNothingGrows) {
    const test::Scratch scratch;
    Followed followed({.directory = scratch.path("files"), .server = "s", .image = "s/i:1"});
    followed.receive("x");
    testing::internal::CaptureStderr();
    followed.pass(1s);
    EXPECT_THAT(hintOf(followed), StartsWith("The registry 's' has sent nothing for 600 s. "));
    const auto warnings = testing::internal::GetCapturedStderr();
    for (const auto seconds : {20, 40, 80, 160, 320}) {
        EXPECT_THAT(warnings, HasSubstr(cat("[WARN] The registry 's' has sent nothing for ", seconds,
                                            " s (will give up after 600 s)\n")));
    }
    EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 5);
}

TEST(TransferMonitor, aCredentialHelperThatHangsIsNamedAndEnds) {
    const test::Scratch scratch;
    const auto helper = scratch.write("docker-credential-hangs", "#!/bin/sh\necho $$ >pid\nsleep 600\n");
    ::chmod(helper.c_str(), 0755);
    Followed followed({.directory = scratch.path("files"), .server = "s", .image = "s/i:1"});
    testing::internal::CaptureStderr();
    const auto look = [&](pid_t program) {
        if (std::ifstream(scratch.path("pid")).peek() != EOF) {
            followed.program = program;
            EXPECT_THAT(hintOf(followed),
                        StartsWith("The credential helper 'docker-credential-hangs' has not answered for "));
            throw Error("given up");
        }
    };
    EXPECT_THROW(runTool({.path = "/bin/sh",
                          .args = {"sh", "-c", cat("cd ", scratch.path(), "; ", helper, " get; exit 1")}},
                         ToolStreams::captureBoth, "dash", ToolWatch{1ms, look}),
                 Error);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("[WARN] The credential helper 'docker-credential-hangs'"));
    const auto pid = parseNumber(trim(readFile(scratch.path("pid"))));
    ASSERT_TRUE(pid);
    const Process process(static_cast<pid_t>(*pid));
    EXPECT_TRUE(test::eventually([&] { return !process.isRunning(); }));
}

TEST(TransferMonitor, whateverGrowsIsNoStall) {
    const test::Scratch scratch;
    Followed followed({.directory = scratch.path("files"), .server = "s", .image = "s/i:1"});
    int looks = 0;
    testing::internal::CaptureStderr();
    // Slow, and each file leaves when it is complete.
    EXPECT_NO_THROW(followed.pass(1h, [&] {
        if (++looks % 15 == 0) {
            followed.receive("x");
        }
        if (looks % 150 == 7) {
            ::unlink(cat(followed.files, "/layer").c_str());
        }
    }));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(TransferMonitor, timeInWhichThisProgramIsStoppedDoesNotCount) {
    const test::Scratch scratch;
    Followed followed({.directory = scratch.path("files"), .server = "s", .image = "s/i:1"});
    testing::internal::CaptureStderr();
    for (int i = 0; i < 5; ++i) {
        followed.now += 1h;
        EXPECT_NO_THROW(followed.pass(1s));
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(TransferMonitor, pausesBetweenAttemptsDoNotCount) {
    const test::Scratch scratch;
    Followed followed({.directory = scratch.path("files"),
                       .server = "s",
                       .image = "s/i:1",
                       .timings = {.timeoutMs = 4000}});
    for (int attempt = 0; attempt < 3; ++attempt) {
        followed.now += 2s;
        followed.monitor.skipPause();
        EXPECT_NO_THROW(followed.pass(1s));
    }
}

TEST(TransferMonitor, thisMachineIsNotSuspected) {
    const test::Scratch scratch;
    Followed followed({.directory = scratch.path("files")});
    EXPECT_NO_THROW(followed.pass(1h));
}

TEST(TransferMonitor, aTerminalGetsOneLineThatIsRewrittenAndWiped) {
    const test::Scratch scratch;
    int primary = -1;
    int secondary = -1;
    ASSERT_EQ(::openpty(&primary, &secondary, nullptr, nullptr, nullptr), 0);
    const UniqueFd reader(primary);
    const UniqueFd before(::dup(STDERR_FILENO));
    ::dup2(secondary, STDERR_FILENO);
    ::close(secondary);
    {
        Followed followed(
            {.label = "Downloading layers", .directory = scratch.path("files"), .totalBytes = 4096});
        followed.receive(std::string(1024, 'x'));
        followed.pass(3s);
    }
    ::dup2(before.get(), STDERR_FILENO);  // nobody has the terminal any more: reading ends
    std::string shown;
    std::array<char, 1024> part{};
    for (ssize_t size = 0; (size = ::read(reader.get(), part.data(), part.size())) > 0;) {
        shown.append(part.data(), static_cast<std::size_t>(size));
    }
    EXPECT_EQ(shown,
              "\rDownloading layers: 1024.00B of 4.00KB, 1024.00B/s, 4 s left\033[K"
              "\rDownloading layers: 1024.00B of 4.00KB, 512.00B/s, 7 s left\033[K"
              "\rDownloading layers: 1024.00B of 4.00KB, 341.00B/s, 10 s left\033[K"
              "\r\033[K");
}

}  // namespace
}  // namespace sarus::image::transfer_monitor_test
