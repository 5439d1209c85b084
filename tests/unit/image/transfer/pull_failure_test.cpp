#include "image/transfer/pull_failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"

namespace sarus::image::pull_failure_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

TEST(PullFailure, wrongCredentialsAreSaidAlone) {
    EXPECT_THAT(explainPullFailure("Error reading manifest: unable to retrieve auth token: invalid "
                                   "username/password: unauthorized: x",
                                   "s", true),
                ElementsAre("Unable to retrieve auth token: invalid username or password provided."));
}

TEST(PullFailure, refusedTokenWithoutCredentialsIsNoWrongPassword) {
    EXPECT_THAT(explainPullFailure("unable to retrieve auth token: invalid username/password: unauthorized",
                                   "s", false),
                ElementsAre("The image may be private or not present in the remote registry.",
                            "Did you perform a login with the proper credentials?",
                            "See 'sarus help pull' (--login option)"));
}

TEST(PullFailure, refusedLayerIsNoMissingLogin) {
    for (const bool given : {true, false}) {
        EXPECT_THAT(explainPullFailure("reading blob sha256:0: unable to retrieve auth token: invalid "
                                       "username/password: unauthorized",
                                       "s", given),
                    ElementsAre(HasSubstr("refused to send a layer")));
    }
}

TEST(PullFailure, malformedFileOfCredentialsIsNamed) {
    EXPECT_THAT(
        explainPullFailure(
            R"(level=fatal msg="Error parsing image name \"docker://s/i\": getting username and password: )"
            R"(1 error occurred:\n\t* reading JSON file \"/h/auth.json\": invalid character\n\n")",
            "s", false),
        ElementsAre(
            "The stored credentials cannot be read: reading JSON file \"/h/auth.json\": invalid character"));
}

TEST(PullFailure, privateImagesSuggestALogin) {
    for (const std::string text :
         {"Error reading manifest latest in docker.io/x: unauthorized: authentication required",
          "Error reading manifest latest: errors: denied: requested access to the resource is denied"}) {
        EXPECT_THAT(explainPullFailure(text, "s", false),
                    ElementsAre("Error reading manifest from registry.",
                                "The image may be private or not present in the remote registry.",
                                "Did you perform a login with the proper credentials?",
                                "See 'sarus help pull' (--login option)"));
    }
}

TEST(PullFailure, unreachableRegistryIsNamed) {
    const auto lines = explainPullFailure(
        "pinging container registry h:1: Get \"https://h:1/v2/\": dial tcp: connect: connection refused",
        "h:1", false);
    EXPECT_THAT(lines, ElementsAre(HasSubstr("The registry 'h:1' cannot be reached: connection refused")));
}

TEST(PullFailure, plainHttpRegistryNamesTheConfiguration) {
    EXPECT_THAT(explainPullFailure("http: server gave HTTP response to HTTPS client", "h:1", false),
                ElementsAre(HasSubstr("registries.conf.d/h:1.conf"), "[[registry]]", "location = \"h:1\"",
                            "insecure = true"));
}

TEST(PullFailure, certificateProblemsAreToldApart) {
    const auto explained = [](const std::string& cause) {
        return explainPullFailure(
            cat("pinging container registry h:1: Get \"https://h:1/v2/\": x509: ", cause), "h:1", false);
    };
    EXPECT_THAT(explained("certificate is valid for a.example, not h"),
                ElementsAre(HasSubstr("another host name")));
    EXPECT_THAT(explained("cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"),
                ElementsAre(HasSubstr("another host name")));
    EXPECT_THAT(explained("certificate signed by unknown authority"),
                ElementsAre(HasSubstr("does not trust")));
    EXPECT_THAT(explained("certificate has expired or is not yet valid: current time X is after Y"),
                ElementsAre(HasSubstr("has expired")));
}

TEST(PullFailure, aProxyThatRequiresALoginIsSaid) {
    EXPECT_THAT(explainPullFailure("Get \"https://h:1/v2/\": Proxy Authentication Required", "h:1", false),
                ElementsAre(HasSubstr("The proxy requires a login")));
}

TEST(PullFailure, aRegistryThatUsesTlsButIsAskedWithoutIsSaid) {
    EXPECT_THAT(
        explainPullFailure("StatusCode: 400, Client sent an HTTP request to an HTTPS server.", "h:1", false),
        ElementsAre(HasSubstr("insecure = true")));
}

TEST(PullFailure, mirrorsThatFailedAreNamed) {
    EXPECT_THAT(
        explainPullFailure(
            R"(level=fatal msg="Error: (Mirrors also failed: [m.example/a:1: reading manifest 1 in )"
            R"(m.example/a: manifest unknown]\n[n.example/a:1: pinging n.example: connection refused]): )"
            R"(h:1/a:1: pinging h:1: dial tcp: no such host")",
            "h:1", false),
        ElementsAre(
            HasSubstr("'h:1' cannot be reached: unknown host name"),
            "The mirror 'm.example/a:1' failed, too: reading manifest 1 in m.example/a: manifest unknown",
            "The mirror 'n.example/a:1' failed, too: pinging n.example: connection refused"));
}

TEST(PullFailure, missingTagIsSaidAfterTheManifest) {
    EXPECT_THAT(
        explainPullFailure("reading manifest nope in h:1/a: manifest unknown: manifest unknown", "h:1",
                           false),
        ElementsAre("Error reading manifest from registry.", HasSubstr("no image with this name and tag")));
}

TEST(PullFailure, unknownTroubleIsQuoted) {
    EXPECT_THAT(explainPullFailure("time=\"x\" level=fatal msg=\"the moon is full\"", "s", true),
                ElementsAre("the moon is full"));
}

}  // namespace
}  // namespace sarus::image::pull_failure_test
