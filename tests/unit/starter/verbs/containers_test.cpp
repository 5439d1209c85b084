#include "starter/verbs/containers.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::starter::containers_test {
namespace {

TEST(ParseSignal, NamesAndNumbers) {
    EXPECT_EQ(parseSignal("SIGHUP"), 1);
    EXPECT_EQ(parseSignal("term"), 15);
    EXPECT_EQ(parseSignal("9"), 9);
    for (const auto* wrong : {"0", "-9", "SIGNONE", "", "9x", "1000"}) {
        EXPECT_THROW(parseSignal(wrong), Error) << wrong;
    }
}

}  // namespace
}  // namespace sarus::starter::containers_test
