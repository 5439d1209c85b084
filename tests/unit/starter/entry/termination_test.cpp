#include "starter/entry/termination.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/error.hpp"
#include "starter/isolated.hpp"

namespace sarus::starter::termination_test {
namespace {

TEST(Termination, APendingSignalIsSeenAndTakenOnce) {
    EXPECT_EQ(0, test::isolated([] {
                  test::blockAllSignals();
                  ::kill(::getpid(), SIGCHLD);
                  if (isTerminationPending() || takePendingTermination() != 0) {
                      return 1;
                  }
                  ::kill(::getpid(), SIGTERM);
                  const bool isSeen = isTerminationPending();
                  return isSeen && takePendingTermination() == SIGTERM && takePendingTermination() == 0 ? 0
                                                                                                        : 2;
              }));
}

TEST(Termination, IsAnErrorWithTheStatusThatAShellWouldGive) {
    EXPECT_EQ(0, test::isolated([] {
                  test::blockAllSignals();
                  throwIfTerminated();
                  ::kill(::getpid(), SIGINT);
                  try {
                      throwIfTerminated();
                  } catch (const Error& error) {
                      return error.exitStatus() == 128 + SIGINT ? 0 : 2;
                  }
                  return 1;
              }));
}

}  // namespace
}  // namespace sarus::starter::termination_test
