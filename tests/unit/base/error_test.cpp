#include "base/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace sarus::error_test {
namespace {

TEST(Error, CarriesErrnoTextAndHint) {
    const auto error = Error::fromErrno("Failed to open /x", ENOENT, "create it");
    EXPECT_STREQ(error.what(), "Failed to open /x: No such file or directory");
    EXPECT_EQ(error.errnum(), ENOENT);
    EXPECT_EQ(error.hint(), "create it");
    EXPECT_EQ(error.exitStatus(), 1);
}

TEST(Error, CarriesUsageAndIdentifier) {
    const auto error = Error("x").addUsage("See a").addUsage("Did you mean b?").setId("no-x");
    EXPECT_STREQ(error.what(), "x");
    EXPECT_EQ(error.usage(), (std::vector<std::string>{"See a", "Did you mean b?"}));
    EXPECT_EQ(error.id(), "no-x");
}

TEST(Error, ContextsGoOutermostFirst) {
    Error error("inner");
    error.addContext("middle").addContext("outer");
    EXPECT_STREQ(error.what(), "outer: middle: inner");
    EXPECT_EQ(error.chain(), (std::vector<std::string>{"outer", "middle", "inner"}));
}

TEST(CheckErrno, PassesResultsThroughAndThrowsOnMinusOne) {
    EXPECT_EQ(checkErrno(7, "x"), 7);
    errno = EACCES;
    EXPECT_THROW(checkErrno(-1, "x"), Error);
}

}  // namespace
}  // namespace sarus::error_test
