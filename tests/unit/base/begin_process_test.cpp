#include "base/begin_process.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.hpp"
#include "base/isolated_process.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus::begin_process_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

bool isIgnored(int signal) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    return action.sa_handler == SIG_IGN;
}

sigset_t blockedSignals() {
    sigset_t blocked;
    ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
    return blocked;
}

void block(int signal) {
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, signal);
    ::sigprocmask(SIG_BLOCK, &one, nullptr);
}

/// The signals that a program ignores, as in /proc/PID/status.
std::string ignoredIn(IgnoredSignals ignored) {
    return runAndCapture({.path = "/bin/grep",
                          .args = {"grep", "SigIgn", "/proc/self/status"},
                          .ignoredSignals = ignored})
        .out;
}

TEST(BeginProcess, OpensMissingStandardStreams) {
    test::inChild([] {
        ::close(0);
        ::close(2);
        beginProcess();
        const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ::dup2(1, 2);  // for the messages of this test
        EXPECT_GT(next, 2);
    });
}

TEST(BeginProcess, LetsTheProgramWaitForItsChildren) {
    test::inChild([] {
        ::signal(SIGCHLD, SIG_IGN);
        beginProcess();
        EXPECT_EQ(runAndCapture({.path = "/bin/sh", .args = {"sh", "-c", "exit 7"}}).status.code, 7);
    });
}

TEST(BeginProcess, UnblocksSignalsUnlessTheProgramKeepsThem) {
    test::inChild([] {
        block(SIGTERM);
        const auto kept = beginProcess(BlockedSignals::keep);
        const auto stillBlocked = blockedSignals();
        EXPECT_TRUE(::sigismember(&kept, SIGTERM) == 1 && ::sigismember(&stillBlocked, SIGTERM) == 1);
        const auto before = beginProcess();
        const auto after = blockedSignals();
        EXPECT_TRUE(::sigismember(&before, SIGTERM) == 1 && ::sigismember(&after, SIGTERM) == 0);
    });
}

TEST(BeginProcess, NotesTheSignalsOfUsersThatTheCallerIgnores) {
    test::inChild([] {
        for (int signal = 1; signal < NSIG; ++signal) {
            ::signal(signal, SIG_DFL);
        }
        EXPECT_THAT(signalsIgnoredByCaller(), IsEmpty());
        for (const int signal : {SIGTERM, SIGHUP, SIGALRM, SIGPIPE}) {
            ::signal(signal, SIG_IGN);
        }
        beginProcess();
        EXPECT_THAT(signalsIgnoredByCaller(), ElementsAre(SIGHUP, SIGTERM));
        EXPECT_TRUE(isIgnoredByCaller(SIGHUP));
        EXPECT_FALSE(isIgnoredByCaller(SIGINT) || isIgnoredByCaller(SIGALRM) || isIgnoredByCaller(SIGPIPE));
        EXPECT_TRUE(isIgnored(SIGHUP) && isIgnored(SIGTERM));
    });
}

TEST(BeginProcess, ProgramsOfTheUserIgnoreWhatTheCallerIgnores) {
    test::inChild([] {
        resetSignalActions(IgnoredSignals::reset);
        ::signal(SIGHUP, SIG_IGN);
        beginProcess();
        ::signal(SIGINT, SIG_IGN);  // its own affair
        EXPECT_THAT(ignoredIn(IgnoredSignals::keep), HasSubstr("0000000000000001\n"));
        EXPECT_THAT(ignoredIn(IgnoredSignals::reset), HasSubstr("0000000000000000\n"));
    });
}

TEST(BeginProcess, AnInterruptibleProgramGoesOnIgnoringWhatTheCallerIgnores) {
    test::inChild([] {
        resetSignalActions(IgnoredSignals::reset);
        ::signal(SIGHUP, SIG_IGN);
        beginProcess();
        {
            const InterruptScope interruptible;
            ::raise(SIGHUP);
            EXPECT_FALSE(isInterrupted());
            ::raise(SIGTERM);
            EXPECT_TRUE(isInterrupted());
        }
        EXPECT_TRUE(isIgnored(SIGHUP));
        EXPECT_FALSE(isIgnored(SIGTERM));
    });
}

}  // namespace
}  // namespace sarus::begin_process_test
