#include "starter/supervise/monitor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "base/error.hpp"
#include "base/eventually.hpp"
#include "base/process_tree.hpp"
#include "base/temporary_directory.hpp"
#include "starter/isolated.hpp"
#include "starter/runtime/pid_file.hpp"

namespace sarus::starter::monitor_test {
namespace {

using test::blockAllSignals;
using test::isolated;
using testing::HasSubstr;

/// Stands for the runtime.
Child startShell(const std::string& script) {
    return start({.path = "/bin/sh", .args = {"sh", "-c", script}});
}

void ignore(pid_t, const ExitStatus&) {}

TEST(Monitor, PassesTheExitStatusOn) {
    EXPECT_EQ(0, isolated([] {
                  blockAllSignals();
                  const auto end = watchRuntime(startShell("exit 42"), ignore);
                  return exitStatusOf(end, "runtime") == 42 ? 0 : 1;
              }));
}

TEST(Monitor, ForwardsSignalsToTheRuntime) {
    for (const auto& [number, name] :
         {std::pair{SIGTERM, "TERM"}, {SIGHUP, "HUP"}, {SIGUSR1, "USR1"}, {SIGINT, "INT"}}) {
        EXPECT_EQ(0, isolated([signal = number, word = name] {
                      blockAllSignals();
                      auto runtime =
                          startShell(std::string("trap 'exit 7' ") + word + "; kill -s " + word +
                                     " $PPID; i=0; while [ $i -lt 100 ]; do sleep 0.05; i=$((i+1)); done");
                      const auto end = watchRuntime(std::move(runtime), ignore);
                      return exitStatusOf(end, "runtime") == 7 && end.lastForwarded == signal ? 0 : 1;
                  }))
            << name;
    }
}

TEST(Monitor, EndsTheContainerWhenItsJobStepHasEnded) {
    EXPECT_EQ(0, isolated([] {
                  blockAllSignals();
                  const pid_t step = startShell("exec sleep 60").release();
                  const UniqueFd stepEnd(static_cast<int>(::syscall(SYS_pidfd_open, step, 0)));
                  const auto end =
                      watchRuntime(startShell("trap 'exit 7' TERM; kill -9 " + std::to_string(step) +
                                              "; while :; do sleep 0.05; done"),
                                   ignore, {.jobStep = stepEnd.get()});
                  return exitStatusOf(end, "runtime") == 7 && end.lastForwarded == SIGTERM ? 0 : 1;
              }));
}

TEST(Monitor, AProgramThatRunsButIsNotReportedYetGetsASignalFromTheRuntimeAlone) {
    const test::TemporaryDirectory directory;
    EXPECT_EQ(
        0, isolated([&] {
            blockAllSignals();
            RuntimeInvocation invocation;
            invocation.program.kind = engine::OciRuntime::runc;
            invocation.bundleDir = directory.path();
            PidFile program(invocation);
            auto runtime = startShell(
                "cd '" + directory.path() +
                "'; trap : TERM; trap ': >second' WINCH; unshare --user setpriv --no-new-privs sh -c 'trap "
                "\"exit 9\" TERM; "
                ": >ready; while [ ! -e second ]; do sleep 0.05; done; exit 7' & "
                "while [ ! -e ready ]; do sleep 0.05; done; kill -TERM $PPID; kill -WINCH $PPID; "
                "wait $!; status=$?; while [ $status -gt 128 ]; do wait $!; status=$?; done; exit $status");
            const auto end = watchRuntime(std::move(runtime), ignore, {.program = &program});
            return end.status.code == 7 && end.startEndedBy == 0 ? 0 : 1;
        }));
}

TEST(Monitor, TellsAboutOtherChildrenThatEnd) {
    EXPECT_EQ(0, isolated([] {
                  blockAllSignals();
                  const pid_t other = startShell("exit 0").release();
                  pid_t reported = 0;
                  watchRuntime(startShell("sleep 0.3"),
                               [&](pid_t pid, const ExitStatus&) { reported = pid; });
                  return reported == other ? 0 : 1;
              }));
}

TEST(Monitor, ARuntimeThatIsKilledIsAnErrorUnlessTheSignalCameThroughTheStarter) {
    try {
        exitStatusOf({.status = {.code = 0, .signal = SIGSEGV}, .lastForwarded = SIGTERM}, "/usr/bin/crun");
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("/usr/bin/crun was killed by signal 11"));
        EXPECT_EQ(error.exitStatus(), 1);
    }
    EXPECT_EQ(exitStatusOf({.status = {.code = 0, .signal = SIGTERM}, .lastForwarded = SIGTERM}, "crun"),
              143);
    EXPECT_EQ(exitStatusOf({.status = {.code = 137, .signal = 0}}, "crun"), 137);
}

TEST(Monitor, ARuntimeThatFailsBeforeTheProgramRunsIsOurFailure) {
    EXPECT_EQ(exitStatusOf({.status = {.code = 255, .signal = 0}, .programStarted = false}, "crun"), 1);
    EXPECT_EQ(exitStatusOf({.status = {.code = 255, .signal = 0}}, "crun"), 255);
    EXPECT_EQ(exitStatusOf({.status = {.code = 0, .signal = 0}, .programStarted = false}, "crun"), 0);
    EXPECT_EQ(
        exitStatusOf(
            {.status = {.code = 0, .signal = SIGTERM}, .lastForwarded = SIGTERM, .programStarted = false},
            "crun"),
        143);
}

TEST(Monitor, WhatTheContainerLeavesBehindIsEnded) {
    EXPECT_EQ(0, isolated([] {
                  blockAllSignals();
                  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
                  // A daemon with a child, both of which outlive the payload.
                  watchRuntime(startShell("(trap '' HUP TERM; sleep 60 & sleep 60) & exit 0"), ignore);
                  if (Process(::getpid()).children().empty()) {
                      return 1;
                  }
                  reapLeftovers(ignore);
                  return Process(::getpid()).children().empty() ? 0 : 2;
              }));
}

TEST(Monitor, SparesTheChildThatIsNoPartOfTheContainer) {
    EXPECT_EQ(0, isolated([] {
                  auto spared = startShell("exec sleep 60");
                  const Process other(startShell("exec sleep 60").release());
                  reapLeftovers(ignore, {spared.pid()});
                  return Process(spared.pid()).isRunning() && !other.isRunning() ? 0 : 1;
              }));
}

TEST(ProcessTree, DescendantsAreKilledAndTheProcessItselfIsNot) {
    EXPECT_EQ(0, isolated([] {
                  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
                  auto runtime = startShell("sh -c 'sleep 60; true' & wait; exec sleep 60");
                  while (Process(runtime.pid()).children().empty()) {
                      ::usleep(1000);
                  }
                  const Process payload = Process(runtime.pid()).children().front();
                  killDescendants(Process(runtime.pid()), 1);
                  const bool ended = test::eventually([&] { return !payload.isRunning(); });
                  return ended && Process(runtime.pid()).isRunning() ? 0 : 1;
              }));
}

TEST(ProcessTree, AZombieIsNotRunning) {
    EXPECT_EQ(0, isolated([] {
                  const Process child(startShell("exit 0").release());
                  const bool ended = test::eventually([&] { return !child.isRunning(); });
                  return Process(::getpid()).isRunning() && ended && !Process(999999999).isRunning() ? 0 : 1;
              }));
}

}  // namespace
}  // namespace sarus::starter::monitor_test
