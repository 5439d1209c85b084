#include "starter/entry/audit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sarus::starter::audit_test {
namespace {

using testing::EndsWith;

TEST(AuditFields, TextsAreQuotedAndPrintable) {
    EXPECT_EQ(AuditFields().number("uid", 0).text("user", "al\"ice\\\n\x7f\xc3\xa4").all(),
              " uid=0 user=\"al\\\"ice\\\\\\x0a\\x7f\\xc3\\xa4\"");
    EXPECT_EQ(AuditFields().text("empty", "").all(), " empty=\"\"");
}

TEST(AuditFields, PartsOfAListCannotLookLikeOthers) {
    EXPECT_EQ(AuditFields().list("mounts", {{"/a:b,c", "/d", "ro"}, {"/e", "/f", "rw"}}).all(),
              " mounts=\"/a\\x3ab\\x2cc:/d:ro,/e:/f:rw\"");
}

TEST(AuditFields, LengthIsBounded) {
    const std::string large(100'000, '\n');
    const auto text = AuditFields().text("t", large).all();
    EXPECT_LT(text.size(), 300U);
    EXPECT_THAT(text, EndsWith("\\x0a...\""));
    const auto list = AuditFields().list("l", {1000, {large, large, "rw"}}).all();
    EXPECT_LT(list.size(), 1300U);
    EXPECT_THAT(list, EndsWith(",...\""));
}

TEST(AuditLog, WritesNothingUnlessItIsOn) {
    AuditLog log;
    log.about().text("user", "x");
    EXPECT_FALSE(log.isOn());
    log.started();
    log.ended(0);
}

}  // namespace
}  // namespace sarus::starter::audit_test
