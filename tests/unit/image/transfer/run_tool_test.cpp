#include "image/transfer/run_tool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/interrupt.hpp"
#include "base/isolated_process.hpp"
#include "base/process_tree.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::image::run_tool_test {
namespace {

TEST(RunTool, EndsAtASignalThatAProcessOfTheToolIgnores) {
    sarus::test::inChild([] {  // which remembers the signal
        const sarus::test::TemporaryDirectory scratch;
        const auto pidFile = scratch / "pid";
        // Like skopeo: it ends, and its credential helper keeps its output open.
        const auto script = cat("(trap '' INT TERM HUP; sh -c 'echo $$ > ", pidFile, ".new; mv ", pidFile,
                                ".new ", pidFile, "; exec sleep 4244') & wait");
        const InterruptScope interruptible;
        std::thread user([&] {
            while (!pathExists(pidFile)) {
                ::usleep(1000);
            }
            ::kill(::getpid(), SIGINT);
        });
        EXPECT_THAT(
            [&] {
                runTool({.path = "/bin/sh", .args = {"sh", "-c", script}}, ToolStreams::captureBoth, "dash");
            },
            testing::ThrowsMessage<Error>(testing::HasSubstr("Interrupted by signal 2")));
        user.join();
        const Process helper(static_cast<pid_t>(parseNumber(trim(readFile(pidFile))).value()));
        while (helper.isRunning()) {
            ::usleep(1000);
        }
    });
}

}  // namespace
}  // namespace sarus::image::run_tool_test
