#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "starter/isolated.hpp"
#include "starter/process_tree.hpp"

namespace sarus::starter {
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
    EXPECT_EQ(0, isolated([] {
                  checkErrno(::unshare(CLONE_NEWPID), "unshare");
                  return isolated(signalAProcessWhoseNumberIsUsedAgain);  // the first process of the namespace
              }));
}

}  // namespace
}  // namespace sarus::starter
