#include "image/transfer/skopeo.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "image/scratch.hpp"
#include "image/transfer/pull_failure.hpp"

namespace sarus::image::skopeo_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Policy, enforcedOneIsAlwaysUsed) {
    const test::Scratch scratch;
    scratch.write("home/.config/containers/policy.json", "{}");
    EXPECT_THAT(
        policyOptions(PolicyChoice{"/site/policy.json", true}, scratch.path("home"), scratch.path("home")),
        ElementsAre("--policy", "/site/policy.json"));
}

TEST(Policy, ofTheUserOrTheSystemComesBeforeTheConfiguredOne) {
    const test::Scratch scratch;
    const auto system = scratch.write("etc/policy.json", "{}");
    scratch.write("home/.config/containers/policy.json", "{}");
    const std::optional<PolicyChoice> configured = PolicyChoice{"/site/policy.json", false};
    EXPECT_THAT(policyOptions(configured, scratch.path("home"), "/missing"), IsEmpty());
    EXPECT_THAT(policyOptions(configured, "/missing", system), IsEmpty());
    EXPECT_THAT(policyOptions(std::nullopt, "", system), IsEmpty());
}

TEST(Policy, configuredOneIsTheFallback) {
    EXPECT_THAT(policyOptions(PolicyChoice{"/site/policy.json", false}, "/missing", "/missing"),
                ElementsAre("--policy", "/site/policy.json"));
}

TEST(PlatformOptions, nameTheVariantOnlyIfThereIsOne) {
    EXPECT_THAT(platformOptions({"linux", "arm64", ""}),
                ElementsAre("--override-os", "linux", "--override-arch", "arm64"));
    EXPECT_THAT(platformOptions({"linux", "arm", "v7"}),
                ElementsAre("--override-os", "linux", "--override-arch", "arm", "--override-variant", "v7"));
}

TEST(Policy, noneAtAllIsAnError) {
    EXPECT_THROW(policyOptions(std::nullopt, "/missing", "/missing"), Error);
    EXPECT_THROW(policyOptions(std::nullopt, "", "/missing"), Error);
}

/// Stands for skopeo: writes down its arguments.
class FakeSkopeo {
public:
    explicit FakeSkopeo(const std::string& body = "") {
        const auto program = scratch.write(
            "skopeo", cat("#!/bin/sh\nprintf '%s\\n' \"$@\" >", scratch.path("arguments"), '\n', body));
        ::chmod(program.c_str(), 0755);
        settings.path = program;
        settings.policy = PolicyChoice{"/site/policy.json", true};
        createDirectories(scratch.path("layout"));
    }

    std::vector<std::string> arguments() const {
        return split(trim(readFile(scratch.path("arguments"))), '\n');
    }

    test::Scratch scratch;
    SkopeoSettings settings;
};

TEST(Skopeo, inspectsWithPolicyRegistriesAndAuthentication) {
    FakeSkopeo fake("printf manifest; echo noise >&2");
    fake.settings.registriesDPath = "/site/registries.d";
    const auto result = Skopeo(fake.settings, "/spool").inspectRaw({"docker://quay.io/a:t", "/auth.json"});
    EXPECT_EQ(result.out, "manifest");
    EXPECT_THAT(fake.arguments(), ElementsAre("--tmpdir", "/spool", "--policy", "/site/policy.json",
                                              "--registries.d", "/site/registries.d", "inspect", "--raw",
                                              "--authfile", "/auth.json", "docker://quay.io/a:t"));
}

TEST(Skopeo, copiesIntoALayout) {
    FakeSkopeo fake("echo trouble >&2; exit 3");
    const auto layout = fake.scratch.path("layout");
    const auto result = Skopeo(fake.settings, "/spool").copy({"docker://quay.io/a:t", "/auth.json"}, layout);
    EXPECT_EQ(result.status.code, 3);
    EXPECT_EQ(result.err, "trouble\n");
    EXPECT_THAT(fake.arguments(),
                ElementsAre("--tmpdir", "/spool", "--policy", "/site/policy.json", "copy",
                            "--remove-signatures", "--src-authfile", "/auth.json", "docker://quay.io/a:t",
                            cat("oci:", layout, ":sarus-oci-image")));
}

TEST(Skopeo, asksAgainForABoundedTimeWhereAFailureMayPass) {
    const FakeSkopeo counter;
    const auto calls = counter.scratch.path("calls");
    const auto attempts = [&](std::string_view error, std::uint64_t timeoutMs, int failures) {
        counter.scratch.write("calls", "");
        FakeSkopeo failing(cat("echo x >>", calls, "; [ $(wc -l <", calls, ") -gt ", failures,
                               " ] && exit 0; echo '", error, "' >&2; exit 1"));
        failing.settings.timings.timeoutMs = timeoutMs;
        const bool ok = Skopeo(failing.settings, "/spool").inspectRaw({"docker://quay.io/a:t"}).status.ok();
        return std::pair(split(trim(readFile(calls)), '\n').size(), ok);
    };
    constexpr auto* overloaded = "received unexpected HTTP status: 503 Service Unavailable";
    EXPECT_EQ(attempts(overloaded, 600'000, 2), std::pair(std::size_t{3}, true));
    EXPECT_EQ(attempts(overloaded, 1000, 99), std::pair(std::size_t{2}, false));
    EXPECT_EQ(attempts("manifest unknown", 600'000, 99), std::pair(std::size_t{1}, false));
}

TEST(Skopeo, refusesAManifestThatIsNone) {
    for (const auto* answer : {"<html>Sign in</html>", "", "[]"}) {
        FakeSkopeo portal(cat("printf '", answer, "'"));
        const auto result =
            Skopeo(portal.settings, "/spool").inspectRaw({.name = "docker://h/a:t", .server = "h"});
        EXPECT_FALSE(result.status.ok());
        EXPECT_THAT(explainPullFailure(result.err, "h", false),
                    ElementsAre(HasSubstr("does not come from a container registry")));
    }
}

TEST(Skopeo, neverSwitchesVerificationOff) {
    FakeSkopeo fake;
    const Skopeo skopeo(fake.settings, "/spool");
    skopeo.copy({"docker://quay.io/a:t", std::nullopt}, fake.scratch.path("layout"));
    EXPECT_THAT(
        fake.arguments(),
        testing::Not(testing::Contains(testing::AnyOf(HasSubstr("insecure"), HasSubstr("tls-verify")))));
}

TEST(Skopeo, layoutWithAColonInItsPathIsGivenByDescriptor) {
    FakeSkopeo fake;
    createDirectories(fake.scratch.path("a:b"));
    Skopeo(fake.settings, "/spool").copy({"docker://quay.io/a:t", std::nullopt}, fake.scratch.path("a:b"));
    EXPECT_THAT(fake.arguments().back(), testing::MatchesRegex("oci:/proc/self/fd/[0-9]+:sarus-oci-image"));
}

TEST(Skopeo, getsTheCallersEnvironment) {
    ::setenv("HTTPS_PROXY", "http://proxy:3128", 1);
    FakeSkopeo fake("printf %s \"$HTTPS_PROXY\"");
    EXPECT_EQ(Skopeo(fake.settings, "/spool").inspectRaw({"docker://quay.io/a:t", std::nullopt}).out,
              "http://proxy:3128");
    ::unsetenv("HTTPS_PROXY");
}

TEST(Skopeo, thatIsMissingIsNamedWithItsPackage) {
    SkopeoSettings settings;
    settings.path = "/nowhere/skopeo";
    settings.policy = PolicyChoice{"/p", true};
    try {
        Skopeo(settings, "/spool").inspectRaw({"docker://quay.io/a:t", std::nullopt});
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "The program \"/nowhere/skopeo\" does not exist");
        EXPECT_THAT(error.hint(), HasSubstr("Debian package skopeo"));
    }
}

}  // namespace
}  // namespace sarus::image::skopeo_test
