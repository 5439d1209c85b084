#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <vector>

#include "base/error.hpp"
#include "base/eventually.hpp"
#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "starter/isolated.hpp"

namespace sarus::process_tree_as_root_test {
namespace {

using test::isolated;

Child startSleep() {
    return start({.path = "/bin/sleep", .args = {"sleep", "60"}});
}

/// In a process namespace of its own, where it can choose the next process's number.
int signalAProcessWhoseNumberIsUsedAgain() {
    checkErrno(::unshare(CLONE_NEWNS), "unshare");
    checkErrno(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "mount /");
    checkErrno(::mount("proc", "/proc", "proc", 0, nullptr), "mount /proc");
    auto first = startSleep();
    const pid_t number = first.pid();
    const Process gone(number);
    if (!gone.isRunning()) {
        return 1;
    }
    ::usleep(20000);  // two clock ticks
    first = Child();  // killed and reaped
    writeAll(openFile("/proc/sys/kernel/ns_last_pid", O_WRONLY).get(), cat(number - 1), "ns_last_pid");
    const auto second = startSleep();
    if (second.pid() != number) {
        return 2;
    }
    gone.signal(SIGKILL);
    ::usleep(20000);
    return !gone.isRunning() && Process(number).isRunning() ? 0 : 3;
}

TEST(ProcessTreeAsRoot, AProcessThatHasGoneIsNotTakenForItsSuccessor) {
    EXPECT_EQ(
        0, isolated([] {
            checkErrno(::unshare(CLONE_NEWPID), "unshare");
            return isolated(signalAProcessWhoseNumberIsUsedAgain);  // the first process of the namespace
        }));
}

TEST(ProcessTreeAsRoot, WhatIsSparedIsLeftAloneWithItsDescendants) {
    EXPECT_EQ(0, isolated([] {
                  auto tree = start(
                      {.path = "/bin/sh",
                       .args = {"sh", "-c", "(sleep 61 & wait) & (sleep 61 & wait) & wait; exec sleep 61"}});
                  const Process root(tree.pid());
                  std::vector<Process> shells;
                  test::eventually(
                      [&] {
                          shells = root.children();
                          return shells.size() == 2 && !shells[0].children().empty() &&
                                 !shells[1].children().empty();
                      },
                      2000);
                  const auto kept = shells.at(0).children().at(0);
                  const auto ended = shells.at(1).children().at(0);
                  killDescendants(root, 1,
                                  [&](const Process& process) { return process.pid() == shells[0].pid(); });
                  test::eventually([&] { return !ended.isRunning() && !shells[1].isRunning(); });
                  const bool right = shells[0].isRunning() && kept.isRunning() && !ended.isRunning() &&
                                     !shells[1].isRunning();
                  killDescendants(root, 1);
                  return right && test::eventually([&] { return !kept.isRunning(); }) ? 0 : 1;
              }));
}

}  // namespace
}  // namespace sarus::process_tree_as_root_test
