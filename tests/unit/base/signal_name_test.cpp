#include "base/signal_name.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

namespace sarus::base::signal_name_test {
namespace {

TEST(SignalName, EverySignalHasItsNameAndOthersNone) {
    EXPECT_EQ(signalName(SIGTERM), "TERM");
    EXPECT_EQ(signalName(SIGKILL), "KILL");
    EXPECT_EQ(signalName(SIGRTMIN), "");
    EXPECT_EQ(signalName(0), "");
    EXPECT_EQ(signalName(-1), "");
#if __GLIBC_PREREQ(2, 32)
    for (int number = 0; number < NSIG; ++number) {
        const char* known = ::sigabbrev_np(number);
        EXPECT_EQ(signalName(number), known != nullptr ? known : "") << number;
    }
#endif
}

}  // namespace
}  // namespace sarus::base::signal_name_test
