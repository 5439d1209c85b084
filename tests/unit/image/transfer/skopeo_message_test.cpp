#include "image/transfer/skopeo_message.hpp"

#include <gtest/gtest.h>

namespace sarus::image::skopeo_message_test {
namespace {

TEST(SkopeoMessage, isTheTextOfTheLastFatalLine) {
    EXPECT_EQ(
        skopeoMessage("time=\"2026-01-01T00:00:00Z\" level=warning msg=\"look out\"\n"
                      "time=\"2026-01-01T00:00:00Z\" level=fatal msg=\"reading \\\"a\\\": no\\nluck\"\n"),
        "reading \"a\": no luck");
    EXPECT_EQ(skopeoMessage("plain text\n"), "plain text");
    EXPECT_EQ(skopeoMessage("time=\"x\" level=fatal msg=EOF\n"), "EOF");
    EXPECT_EQ(skopeoMessage(""), "");
}

TEST(SkopeoMessage, ofACrashIsTheCauseAndNotTheTrace) {
    EXPECT_EQ(skopeoMessage("fatal error: failed to reserve page summary memory\n\nruntime "
                            "stack:\nruntime.throw({0xd277ca?})\n"
                            "\truntime/panic.go:1047 +0x5d fp=0x7fff\n"),
              "skopeo crashed: failed to reserve page summary memory. Limits of memory or processes may be "
              "too low for it (ulimit -v, "
              "ulimit -u)");
    EXPECT_EQ(
        skopeoMessage("time=\"x\" level=warning msg=y\n"
                      "runtime/cgo: pthread_create failed: Resource temporarily unavailable\nSIGABRT: abort\n"
                      "PC=0x7f9e29cdbeec m=0 sigcode=18446744073709551610\n\ngoroutine 0 [idle]:\n\nrax    "
                      "0x0\ngs     0x0\n"),
        "skopeo crashed: pthread_create failed: Resource temporarily unavailable. Limits of memory or "
        "processes may be too low "
        "for it (ulimit -v, ulimit -u)");
}

TEST(SkopeoMessage, quotedAsInGoIsReadable) {
    const auto decoded = [](const std::string& quoted) {
        return skopeoMessage("level=fatal msg=\"" + quoted + "\"");
    };
    EXPECT_EQ(decoded(R"(1 error occurred:\n\t* reading JSON file \"/a\": bad\r\n\n)"),
              "1 error occurred: * reading JSON file \"/a\": bad");
    EXPECT_EQ(decoded(R"(a\a\b\f\vb\x1bc\x7fd)"), "a b c d");
    EXPECT_EQ(decoded(R"(caf\xc3\xa9 \u00e9\u20ac\U0001f600 C:\\dir)"),
              "caf\u00e9 \u00e9\u20ac\U0001f600 C:\\dir");
    EXPECT_EQ(decoded(R"(lone \xff, half \ud800, far \Uffffffff)"), "lone \\xff, half \ufffd, far \ufffd");
    EXPECT_EQ(decoded(R"(cut \x4)"), "cut x4");
    EXPECT_EQ(skopeoMessage("level=fatal msg=\"ends \\"), "ends \\");
}

}  // namespace
}  // namespace sarus::image::skopeo_message_test
