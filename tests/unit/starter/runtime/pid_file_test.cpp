#include "starter/runtime/pid_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::starter::pid_file_test {
namespace {

using engine::OciRuntime;

class StartOfAProgram : public testing::TestWithParam<OciRuntime> {
protected:
    StartOfAProgram() {
        invocation.program.kind = GetParam();
        invocation.bundleDir = directory.path();
    }

    /// As the runtime does.
    void tell(const std::string& text) const {
        const bool crun = GetParam() == OciRuntime::crun;
        const auto path = crun ? invocation.pidFile : directory / ".pid";
        writeAll(openFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0644).get(), text, path);
        if (!crun) {
            ASSERT_EQ(::rename(path.c_str(), invocation.pidFile.c_str()), 0);
        }
    }

    test::TemporaryDirectory directory;
    RuntimeInvocation invocation;
};

TEST_P(StartOfAProgram, IsKnownOnceTheRuntimeTells) {
    PidFile file(invocation);
    EXPECT_FALSE(file.started());
    EXPECT_FALSE(file.read());
    tell("4711");
    const auto start = file.read();
    ASSERT_TRUE(start);
    EXPECT_EQ(start->pid, 4711);
    EXPECT_FALSE(file.read()) << "told once";
    EXPECT_TRUE(file.started());
}

TEST_P(StartOfAProgram, TimeIsThatOfTheMessageNotOfTheReader) {
    PidFile file(invocation);
    tell("1");
    ::usleep(100'000);
    const pid_t child = ::fork();
    if (child == 0) {
        ::pause();
    }
    const auto later = Process(child).started();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto start = file.read();
    ASSERT_TRUE(start);
    EXPECT_LT(start->time, later);
    EXPECT_GT(start->time + 200, later);
}

TEST_P(StartOfAProgram, NonsenseIsNoStart) {
    PidFile file(invocation);
    for (const char* text : {"", "0", "-1", "x", "99999999999"}) {
        tell(text);
        EXPECT_FALSE(file.read()) << text;
    }
}

INSTANTIATE_TEST_SUITE_P(EachRuntime, StartOfAProgram, testing::Values(OciRuntime::crun, OciRuntime::runc));

TEST(PidFile, ACrunThatReplacesTheFileIsNotTakenForOneThatFailed) {
    const test::TemporaryDirectory directory;
    RuntimeInvocation invocation;
    invocation.program.kind = OciRuntime::crun;
    invocation.bundleDir = directory.path();
    const PidFile file(invocation);
    EXPECT_FALSE(file.started());
    ASSERT_EQ(::unlink(invocation.pidFile.c_str()), 0);
    writeAll(openFile(invocation.pidFile, O_WRONLY | O_CREAT, 0644).get(), "1", invocation.pidFile);
    EXPECT_TRUE(file.started());
}

TEST(PidFile, NothingThatIsThereAlreadyIsUsed) {
    const test::TemporaryDirectory directory;
    RuntimeInvocation invocation;
    invocation.program.kind = OciRuntime::crun;
    invocation.bundleDir = directory.path();
    ASSERT_EQ(::symlink("/dev/null", (directory / "pid").c_str()), 0);
    EXPECT_THROW(PidFile{invocation}, Error);
}

}  // namespace
}  // namespace sarus::starter::pid_file_test
