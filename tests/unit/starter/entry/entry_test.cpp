#include "starter/entry/entry.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/begin_process.hpp"
#include "base/error.hpp"

namespace sarus::starter::entry_test {
namespace {

using testing::Contains;
using testing::Not;

TEST(Entry, OnlyTheMapOverTheFullRangeIsTheInitialUserNamespace) {
    EXPECT_TRUE(isIdentityMap("         0          0 4294967295\n"));
    EXPECT_FALSE(isIdentityMap("         0       1000          1\n"));
    EXPECT_FALSE(isIdentityMap("         0          0          1\n"));
    EXPECT_FALSE(isIdentityMap("         0          0 1000\n 1000 1000 4294966295\n"));
    EXPECT_FALSE(isIdentityMap(""));
}

TEST(Entry, DescriptorsThatAreNotKeptAreClosed) {
    const int kept = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int closed = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_THAT(openDescriptors(), Contains(kept));
    closeInherited({0, 1, 2, kept, closed}, {kept});
    EXPECT_THAT(openDescriptors(), Contains(kept));
    EXPECT_THAT(openDescriptors(), Contains(0));
    EXPECT_THAT(openDescriptors(), Not(Contains(closed)));
    ::close(kept);
}

/// Runs `body` in a process of its own, whose limits and streams it may change.
template <typename Body>
int inChild(Body body) {
    const pid_t pid = ::fork();
    if (pid == 0) {
        int result = 99;
        try {
            result = body();
        } catch (const Error&) {
            result = 98;
        }
        ::_exit(result);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Entry, ALowSoftLimitIsRaisedToTheHardOne) {
    EXPECT_EQ(0, inChild([] {
                  rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 30};
                  ::setrlimit(RLIMIT_FSIZE, &limit);
                  const bool changed = raiseLimit(RLIMIT_FSIZE, "RLIMIT_FSIZE", 64 << 20, limit);
                  rlimit now{};
                  ::getrlimit(RLIMIT_FSIZE, &now);
                  return changed && now.rlim_cur == 1 << 30 && now.rlim_max == 1 << 30 ? 0 : 1;
              }));
}

TEST(Entry, AnInsufficientHardLimitIsAnErrorThatNamesIt) {
    EXPECT_EQ(0, inChild([] {
                  if (::getuid() == 0 && ::setuid(65534) != 0) {
                      return 2;
                  }
                  rlimit limit{.rlim_cur = 16, .rlim_max = 16};
                  ::setrlimit(RLIMIT_NOFILE, &limit);
                  try {
                      raiseLimit(RLIMIT_NOFILE, "RLIMIT_NOFILE", 256, limit);
                  } catch (const Error& error) {
                      return std::string(error.what()).find("RLIMIT_NOFILE of 16 is too low") !=
                                     std::string::npos
                                 ? 0
                                 : 3;
                  }
                  return 1;
              }));
}

TEST(Entry, TheStackLimitIsGivenBackWithinTheHardLimit) {
    EXPECT_EQ(0, inChild([] {
                  const rlimit limit{.rlim_cur = 8 << 20, .rlim_max = 64 << 20};
                  ::setrlimit(RLIMIT_STACK, &limit);
                  const auto same = stackLimit(8 << 20);
                  const auto none = stackLimit(std::nullopt);
                  const auto more = stackLimit(32 << 20);
                  const auto unlimited = stackLimit(RLIM_INFINITY);
                  if (same || none || !more || !unlimited) {
                      return 1;
                  }
                  return more->soft == 32 << 20 && unlimited->soft == 64 << 20 && unlimited->hard == 64 << 20
                             ? 0
                             : 2;
              }));
}

TEST(Entry, SignalsThatTheCallerIgnoresNeitherEndTheStarterNorArePending) {
    EXPECT_EQ(0, inChild([] {
                  resetSignalActions(IgnoredSignals::reset);
                  ::signal(SIGHUP, SIG_IGN);
                  beginProcess(BlockedSignals::keep);
                  sanitizeEntry();
                  ::raise(SIGHUP);
                  ::raise(SIGTERM);
                  sigset_t pending;
                  ::sigpending(&pending);
                  return ::sigismember(&pending, SIGHUP) == 0 && ::sigismember(&pending, SIGTERM) == 1 ? 0
                                                                                                       : 1;
              }));
}

TEST(Entry, InheritedSignalStateUmaskDirectoryAndEnvironmentAreReset) {
    EXPECT_EQ(0, inChild([] {
                  ::signal(SIGCHLD, SIG_IGN);
                  ::alarm(100);
                  ::umask(0777);
                  ::setenv("LD_LIBRARY_PATH", "/evil", 1);
                  const auto entry = sanitizeEntry();
                  struct sigaction action {};
                  ::sigaction(SIGCHLD, nullptr, &action);
                  const mode_t now = ::umask(022);
                  char directory[64];
                  const bool atRoot =
                      ::getcwd(directory, sizeof directory) != nullptr && std::string(directory) == "/";
                  return action.sa_handler == SIG_DFL && ::alarm(0) == 0 && entry.umask == 0777 &&
                                 now == 022 && atRoot && ::getenv("LD_LIBRARY_PATH") == nullptr
                             ? 0
                             : 1;
              }));
}

TEST(Entry, InheritedDescriptorsAreRecordedAndCloseOnExec) {
    EXPECT_EQ(0, inChild([] {
                  const int fd = ::open("/dev/null", O_RDONLY);
                  const auto entry = sanitizeEntry();
                  const bool recorded = std::find(entry.descriptors.begin(), entry.descriptors.end(), fd) !=
                                        entry.descriptors.end();
                  return recorded && ::fcntl(fd, F_GETFD) == FD_CLOEXEC ? 0 : 1;
              }));
}

}  // namespace
}  // namespace sarus::starter::entry_test
