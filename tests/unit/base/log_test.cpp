#include "base/log.hpp"

#include <gmock/gmock.h>

#include <sstream>

namespace sarus::log_test {
namespace {

TEST(Log, TimeIsADecimalNumberWithNineDigitsBehindThePoint) {
    setLogLevel(LogLevel::info);
    testing::internal::CaptureStdout();
    constexpr int lines = 1000;  // one in ten would be short without leading zeros
    for (int i = 0; i < lines; ++i) {
        logInfo("Test", "text");
    }
    setLogLevel(LogLevel::warn);
    std::istringstream output(testing::internal::GetCapturedStdout());
    int count = 0;
    for (std::string line; std::getline(output, line); ++count) {
        const auto point = line.find('.');
        ASSERT_NE(point, std::string::npos);
        EXPECT_EQ(line.find(']') - point - 1, 9U) << line;
    }
    EXPECT_EQ(count, lines);
}

}  // namespace
}  // namespace sarus::log_test
