#include "starter/supervise/supervision.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "base/eventually.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"
#include "starter/fake_runtime.hpp"
#include "starter/isolated.hpp"

namespace sarus::starter::supervision_test {
namespace {

using test::FakeRuntime;
using test::isolated;

/// The runtime's root is the directory of the fake one, and so is the bundle.
RuntimeInvocation invocationOf(const FakeRuntime& runtime) {
    return {.program = {.path = runtime / "crun", .kind = engine::OciRuntime::crun},
            .runtimeRoot = runtime.directory.path(),
            .bundleDir = runtime.directory.path(),
            .containerName = "job"};
}

Remains remainsOf(const FakeRuntime& runtime) {
    ContainerRecord record;
    record.command = {"true"};
    return {.stateDirectory = runtime / "job",
            .record = RecordFile::create(runtime.directory.path(), "job", record)};
}

/// As a starter that may begin at once; the status is that of the container's program.
int superviseIn(FakeRuntime& runtime) {
    FakeRuntime::becomeStarter();
    auto invocation = invocationOf(runtime);
    PidFile program(invocation);
    Supervised supervised{.invocation = invocation, .remains = remainsOf(runtime)};
    supervised.watched.program = &program;
    return supervise(runtime.session, std::move(supervised));
}

/// Waits for the end of the process whose number is in the file.
bool endsSoon(const FakeRuntime& runtime, const std::string& file) {
    const Process process(static_cast<pid_t>(parseNumber(trim(readFile(runtime / file))).value_or(0)));
    return test::eventually([&] { return !process.isRunning(); });
}

TEST(Supervision, TheStatusIsThatOfTheProgram) {
    FakeRuntime runtime("sh -c 'exit 42' & echo $! > pid; wait $!");
    EXPECT_EQ(isolated([&] { return superviseIn(runtime); }), 42);
    EXPECT_EQ(runtime.arguments(),
              cat("--root ", runtime.directory.path(), " --cgroup-manager=disabled run --pid-file ",
                  runtime / "pid", " --no-new-keyring --bundle ", runtime.directory.path(), " job\n"));
}

TEST(Supervision, ARuntimeThatStartsNoProgramIsOurFailure) {
    FakeRuntime runtime("exit 77");
    EXPECT_EQ(isolated([&] { return superviseIn(runtime); }), 1);
}

TEST(Supervision, TheRecordIsThereAsLongAsTheContainerAndNoLonger) {
    FakeRuntime runtime("mkdir job; cp .job.json seen; sh -c 'exit 0' & echo $! > pid; wait $!");
    EXPECT_EQ(isolated([&] { return superviseIn(runtime); }), 0);
    EXPECT_THAT(readFile(runtime / "seen"), testing::HasSubstr(R"("command":["true"])"));
    EXPECT_FALSE(runtime.has(".job.json"));
    EXPECT_FALSE(runtime.has("job")) << "what the runtime has left of its state";
}

TEST(Supervision, ASignalThatCameBeforeTheStartStartsNothing) {
    FakeRuntime runtime("exit 0");
    EXPECT_EQ(isolated([&] {
                  FakeRuntime::becomeStarter();
                  ::kill(::getpid(), SIGTERM);
                  return superviseIn(runtime) == 128 + SIGTERM ? 0 : 1;
              }),
              0);
    EXPECT_FALSE(runtime.has("arguments"));
    EXPECT_FALSE(runtime.has(".job.json"));
}

TEST(Supervision, WhatTheProgramLeavesBehindEndsBeforeTheStarter) {
    FakeRuntime runtime("sh -c 'sleep 60 & echo $! > daemon' & echo $! > pid; wait $!");
    EXPECT_EQ(isolated([&] { return superviseIn(runtime); }), 0);
    EXPECT_TRUE(endsSoon(runtime, "daemon"));
}

TEST(Supervision, TheEndIsToldBeforeTheLastChildrenAreReaped) {
    FakeRuntime runtime("exit 3");
    EXPECT_EQ(isolated([&] {
                  FakeRuntime::becomeStarter();
                  auto helper = start({.path = "/bin/sleep", .args = {"sleep", "60"}});
                  std::vector<std::string> events;
                  auto invocation = invocationOf(runtime);
                  supervise(
                      runtime.session,
                      {.invocation = invocation,
                       .reaped =
                           [&](pid_t pid, const ExitStatus&) {
                               if (pid == helper.pid()) {
                                   helper.release();
                                   events.emplace_back("helper");
                               }
                           },
                       .ended = [&](const RuntimeEnd& end) { events.push_back(cat(end.status.code)); }});
                  return events == std::vector<std::string>{"3", "helper"} ? 0 : 1;
              }),
              0);
}

TEST(Supervision, AStarterThatIsKilledEndsTheContainerAndTidiesUp) {
    FakeRuntime runtime(
        "sleep 60 & program=$!; trap 'kill $program; exit 0' HUP; echo $program > pid; kill -9 $PPID; wait; "
        "wait");
    EXPECT_EQ(isolated([&] { return superviseIn(runtime); }), 128 + SIGKILL);
    EXPECT_TRUE(runtime.await("pid"));
    EXPECT_TRUE(endsSoon(runtime, "pid"));
    EXPECT_TRUE(test::eventually([&] { return !runtime.has(".job.json"); }));
}

/// The runtime of `sarus exec`, which ignores the end of its starter: the janitor must know it from its first
/// instruction on.
TEST(Supervision, AStarterThatIsKilledAsSoonAsTheRuntimeRunsLeavesNoCommand) {
    FakeRuntime runtime("sleep 60 & echo $! > command; mv command running; wait");
    EXPECT_EQ(isolated([&] {
                  FakeRuntime::becomeStarter();
                  Remains none;
                  Janitor janitor(runtime.session.credentials, none, nullptr);
                  const auto process = openFile("/dev/null", O_RDONLY);
                  auto invocation = invocationOf(runtime);
                  invocation.execProcess = process.get();
                  invocation.janitor = janitor.control();
                  const auto started = startRuntime(invocation);
                  writeAll(openFile(runtime / "runtime", O_WRONLY | O_CREAT, 0600).get(), cat(started.pid()),
                           "runtime");
                  ::kill(::getpid(), SIGKILL);
                  return 0;
              }),
              128 + SIGKILL);
    EXPECT_TRUE(endsSoon(runtime, "runtime"));
    if (runtime.has("running")) {  // else it was ended before
        EXPECT_TRUE(endsSoon(runtime, "running"));
    }
}

TEST(Supervision, WithoutAJanitorNoRuntimeStarts) {
    FakeRuntime runtime("exit 0");
    EXPECT_EQ(isolated([&] {
                  FakeRuntime::becomeStarter();
                  Remains none;
                  Janitor janitor(runtime.session.credentials, none, nullptr);
                  ::kill(janitor.pid(), SIGKILL);
                  siginfo_t info{};
                  ::waitid(P_PID, static_cast<id_t>(janitor.pid()), &info, WEXITED | WNOWAIT);
                  auto invocation = invocationOf(runtime);
                  invocation.janitor = janitor.control();
                  try {
                      startRuntime(invocation);
                      return 1;
                  } catch (const Error& error) {
                      return error.errnum() == EPIPE ? 0 : 2;
                  }
              }),
              0);
    EXPECT_FALSE(runtime.has("arguments"));
}

}  // namespace
}  // namespace sarus::starter::supervision_test
