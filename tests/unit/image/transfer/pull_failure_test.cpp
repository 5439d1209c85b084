#include "image/transfer/pull_failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/text.hpp"

namespace sarus::image::pull_failure_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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

/// Texts of skopeo 1.9, 1.18 and 1.22.
struct Said {
    std::string_view text;
    std::string_view explained;  ///< a part of one of the lines
    bool passes = false;         ///< whether trying again may help
};

constexpr std::string_view privateImage = "The image may be private or not present in the remote registry.";
constexpr std::string_view layerRefused = "refused to send a layer";
constexpr std::string_view noRegistry = "does not come from a container registry";

constexpr Said said[] = {
    // the registry refuses
    {"pinging container registry h: invalid status code from registry 403 (Forbidden)", privateImage},
    {"pinging container registry h: denied: denied", privateImage},
    {"pinging container registry h: StatusCode: 403, \"\"", privateImage},
    {"reading manifest 1 in h/a: unauthorized", privateImage},
    {"reading manifest 1 in h/a: unauthorized: authentication required", privateImage},
    {"reading manifest 1 in h/a: authentication required", privateImage},
    {"reading manifest 1 in h/a: denied", privateImage},
    {"reading manifest 1 in h/a: denied: denied", privateImage},
    {"reading manifest 1 in h/a: StatusCode: 403, <html><head><title>Sign in</title>...", privateImage},
    {"reading manifest 1 in h/a: StatusCode: 403, \"<html><head><title>Sign...\"",
     "The answer was a web page"},
    {"reading manifest 1 in h/a: unknown: go away", privateImage},
    {"reading manifest 1 in h/a: unknown: go away", "The registry says: go away"},
    {"Requesting bearer token: invalid status code from registry 403 (Forbidden)", privateImage},
    {"Requesting bearer token: received unexpected HTTP status: 403 Forbidden", privateImage},
    {"unable to retrieve auth token: invalid username/password: authentication required", privateImage},
    {"reading blob sha256:0: Error fetching blob: invalid status code from registry 403 (Forbidden)",
     layerRefused},
    {"reading blob sha256:0: fetching blob: unauthorized", layerRefused},
    {"reading blob sha256:0: fetching blob: StatusCode: 403, \"\"", layerRefused},
    {"reading blob sha256:0: fetching blob: unknown: go away", layerRefused},
    // it lacks what it was asked for
    {"reading manifest 1 in h/a: manifest unknown", "no image with this name and tag"},
    {"reading manifest 1 in h/a: name unknown", "no repository with this name"},
    {"reading blob sha256:0: Error fetching blob: invalid status code from registry 404 (Not Found)",
     "a layer is missing"},
    {"reading blob sha256:0: fetching blob: blob unknown", "a layer is missing"},
    {"reading blob sha256:0: fetching blob: StatusCode: 404, \"\"", "a layer is missing"},
    // it fails
    {"pinging container registry h: invalid status code from registry 502 (Bad Gateway)",
     "The registry failed: 502 (Bad Gateway)", true},
    {"pinging container registry h: received unexpected HTTP status: 500 Internal Server Error",
     "The registry failed: 500", true},
    {"reading manifest 1 in h/a: received unexpected HTTP status: 504 Gateway Timeout",
     "504 (Gateway Timeout)", true},
    {"reading blob sha256:0: Error fetching blob: invalid status code from registry 503 (Service "
     "Unavailable)",
     "503", true},
    {"reading blob sha256:0: fetching blob: received unexpected HTTP status: 502 Bad Gateway",
     "502 (Bad Gateway)", true},
    {"Requesting bearer token: invalid status code from registry 500 (Internal Server Error)",
     "token server failed: 500", true},
    {"Requesting bearer token: received unexpected HTTP status: 503 Service Unavailable",
     "token server is overloaded", true},
    {"Requesting bearer token: invalid status code from registry 404 (Not Found)",
     "token server refused the request"},
    {"pinging container registry h: too many requests to registry", "refuses more requests", true},
    {"reading manifest 1 in h/a: toomanyrequests: You have reached your rate limit", "refuses more requests",
     true},
    {"reading manifest 1 in h/a: StatusCode: 429, \"\"", "refuses more requests", true},
    {"writing blob: happened during read: unexpected EOF", "closed the connection", true},
    {"writing blob: happened during read: unexpected EOF (after reconnecting, server did not process a "
     "Range: header, status 200)",
     "closed the connection", true},
    {"pinging container registry h: Get \"http://h/v2/\": EOF", "EOF", true},
    {"writing blob: happened during read: Digest did not match, expected sha256:0, got sha256:1",
     "It was not stored"},
    {"reading manifest 1 in h/a: StatusCode: 418, short and stout", "The registry refused the request"},
    // another server answers
    {"pinging container registry h: invalid status code from registry 404 (Not Found)", noRegistry},
    {"pinging container registry h: StatusCode: 404, \"<html>...\"", noRegistry},
    {"reading manifest 1 in h/a: StatusCode: 404, <html><head>...", noRegistry},
    {"invalid character '<' looking for beginning of value", noRegistry},
    {"unexpected end of JSON input", noRegistry},
    {"decoding bearer token (last URL \"http://h/token\", body start \"\"): unexpected end of JSON input",
     noRegistry},
    // a proxy
    {"pinging container registry h: Get \"https://h/v2/\": Proxy Authentication Required",
     "The proxy requires a login"},
    {"pinging container registry h: invalid status code from registry 407 (Proxy Authentication Required)",
     "The proxy requires a login"},
    {"pinging container registry h: StatusCode: 407, \"\"", "The proxy requires a login"},
    {"pinging container registry h: Get \"https://h/v2/\": Forbidden",
     "The proxy refuses to connect to the registry: 403 (Forbidden)"},
    {"pinging container registry h: Get \"https://h/v2/\": Bad Gateway",
     "The proxy failed: 502 (Bad Gateway)", true},
    // before the registry
    {"getting username and password: 1 error occurred:\n\t* error getting credentials - err: "
     "docker-credential-nope resolves to "
     "executable in current directory (./docker-credential-nope), out: ``\n\n",
     "The credential helper 'docker-credential-nope' is not installed"},
    {"getting username and password: error getting credentials - err: exec: \"docker-credential-nope\": "
     "executable file not found in "
     "$PATH, out: ``",
     "The credential helper 'docker-credential-nope' is not installed"},
    {"getting username and password: error getting credentials - err: exit status 1, out: `no keyring`",
     "The credential helper failed: exit status 1, out: `no keyring`"},
    {"Source image rejected: A signature was required, but no signature exists",
     "The signature policy /p.json does not accept"},
};

/// As in a line of skopeo's log.
std::string quoted(std::string_view text) {
    return join(split(join(split(text, '"'), "\\\""), '\n'), "\\n");
}

TEST(PullFailure, isExplainedInTheSameWayForEachVersionOfSkopeo) {
    for (const auto* name : {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"}) {
        ::unsetenv(name);
    }
    for (const auto& [text, explained, passes] : said) {
        const auto message = cat(
            "time=\"x\" level=debug msg=\"denied: toomanyrequests\"\n",
            "time=\"x\" level=fatal msg=\"Error parsing image name \\\"docker://h/a:1\\\": ", quoted(text),
            "\"\n");
        const auto lines = explainPullFailure(message, "h", false, "/p.json");
        EXPECT_THAT(lines, Contains(HasSubstr(std::string(explained)))) << text;
        EXPECT_THAT(lines, Not(Contains(HasSubstr("Error parsing image name")))) << text;
        EXPECT_EQ(passingFailure(message).has_value(), passes) << text;
    }
}

TEST(PullFailure, aWrongPasswordOfAProxyIsNoMissingOne) {
    ::setenv("https_proxy", "http://me:secret@proxy:3128", 1);
    const auto lines = explainPullFailure("Get \"https://h/v2/\": Proxy Authentication Required", "h", false);
    ::unsetenv("https_proxy");
    EXPECT_THAT(lines, ElementsAre("The proxy refused the user name or password in https_proxy."));
}

TEST(PullFailure, namesInAReferenceAreNoErrors) {
    EXPECT_THAT(
        explainPullFailure("reading manifest denied in h/unauthorized/toomanyrequests: manifest unknown", "h",
                           false),
        Contains(HasSubstr("no image with this name and tag")));
}

TEST(RegistrysAnswer, isARefusalOfARegistryAlone) {
    EXPECT_TRUE(isRegistrysAnswer("reading manifest 1 in h/a: manifest unknown"));
    EXPECT_TRUE(isRegistrysAnswer("reading manifest 1 in h/a: StatusCode: 403, \"\""));
    EXPECT_FALSE(isRegistrysAnswer("reading manifest 1 in h/a: StatusCode: 404, <html><head>..."));
    EXPECT_FALSE(isRegistrysAnswer("Get \"https://h/v2/\": Forbidden"));
    EXPECT_FALSE(isRegistrysAnswer("Get \"https://h/v2/\": dial tcp: lookup h: no such host"));
    EXPECT_FALSE(isRegistrysAnswer("received unexpected HTTP status: 500 Internal Server Error"));
}

TEST(RequestedPause, isThatOfTheLastHeader) {
    const auto pause = [](const std::string& value) {
        return requestedPause(cat("level=debug msg=\"Detected 'Retry-After' header \\\"1\\\"\"\n",
                                  "level=debug msg=\"Detected 'Retry-After' header \\\"", value, "\\\"\"\n"));
    };
    EXPECT_EQ(pause("3600"), std::chrono::seconds(3600));
    EXPECT_GT(pause("Fri, 31 Dec 2100 23:59:59 GMT"), std::chrono::hours(24));
    EXPECT_EQ(pause("soon"), std::nullopt);
    EXPECT_EQ(requestedPause("level=debug msg=x"), std::nullopt);
}

}  // namespace
}  // namespace sarus::image::pull_failure_test
