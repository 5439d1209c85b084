#include "base/progress_line.hpp"

#include <gtest/gtest.h>

namespace sarus::progress_line_test {
namespace {

TEST(ProgressLine, ShowsBytesRateAndRemainingTime) {
    EXPECT_EQ(progressLine("Converting", 50U << 20U, 200U << 20U, 2.0),
              "Converting: 50.00MB of 200.00MB, 25.00MB/s, 7 s left");
    EXPECT_EQ(progressLine("Converting", 4U << 20U, 4U << 20U, 2.0),
              "Converting: 4.00MB of 4.00MB, 2.00MB/s");
}

TEST(ProgressLine, WithoutATotalSaysWhatIsKnown) {
    EXPECT_EQ(progressLine("Downloading", 50U << 20U, 0, 2.0), "Downloading: 50.00MB, 25.00MB/s");
    EXPECT_EQ(progressLine("Downloading", 0, 0, 0), "Downloading: 0.00B, 0.00B/s");
}

TEST(ProgressLine, WithoutATerminalIsNotCut) {
    EXPECT_FALSE(canRewrite(-1));
    EXPECT_EQ(rewritten(std::string(300, 'x'), -1), "\r" + std::string(300, 'x') + "\033[K");
}

}  // namespace
}  // namespace sarus::progress_line_test
