#include "image/transfer/file_policy.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "image/scratch.hpp"

namespace sarus::image::file_policy_test {
namespace {

const std::string accept = R"([{"type":"insecureAcceptAnything"}])";
const std::string reject = R"([{"type":"reject"}])";

std::string policy(const std::string& general, const std::string& transports = "{}") {
    return cat(R"({"default":)", general, R"(,"transports":)", transports, "}");
}

TEST(FilePolicy, theDefaultDecidesWhereNothingElseIsSaid) {
    EXPECT_TRUE(policyAccepts(policy(accept), "docker-archive", "/a"));
    EXPECT_FALSE(policyAccepts(policy(reject), "oci", "/a"));
    EXPECT_FALSE(policyAccepts(policy("[]"), "oci", "/a"));
    EXPECT_TRUE(policyAccepts(policy(accept, cat(R"({"docker":{"":)", reject, "}}")), "oci", "/a"));
}

TEST(FilePolicy, whatNeedsASignatureIsNotAccepted) {
    EXPECT_FALSE(policyAccepts(policy(R"([{"type":"signedBy","keyType":"GPGKeys","keyPath":"/k"}])"),
                               "oci-archive", "/a"));
    EXPECT_FALSE(policyAccepts(policy(R"([{"type":"insecureAcceptAnything"},{"type":"reject"}])"),
                               "oci-archive", "/a"));
}

TEST(FilePolicy, theNarrowestScopeDecides) {
    const auto text =
        policy(reject, cat(R"({"oci":{"":)", reject, R"(,"/site/images":)", accept, R"(,"/site/images/bad":)",
                           reject, R"(},"docker-archive":{"":)", accept, "}}"));
    EXPECT_TRUE(policyAccepts(text, "oci", "/site/images/good"));
    EXPECT_FALSE(policyAccepts(text, "oci", "/site/images/bad/x"));
    EXPECT_FALSE(policyAccepts(text, "oci", "/site"));
    EXPECT_FALSE(policyAccepts(text, "oci", ""));
    EXPECT_TRUE(policyAccepts(text, "docker-archive", "/anywhere"));
}

TEST(FilePolicy, allIsAcceptedOnlyIfNoScopeOfTheTransportWantsMore) {
    EXPECT_TRUE(policyAcceptsAll(policy(accept), "docker"));
    EXPECT_FALSE(policyAcceptsAll(policy(reject), "docker"));
    EXPECT_TRUE(policyAcceptsAll(policy(accept, cat(R"({"oci":{"":)", reject, "}}")), "docker"));
    EXPECT_TRUE(policyAcceptsAll(policy(accept, cat(R"({"docker":{"a.org":)", accept, "}}")), "docker"));
    EXPECT_FALSE(policyAcceptsAll(
        policy(accept, cat(R"({"docker":{"a.org":)", accept, R"(,"b.org/c":)", reject, "}}")), "docker"));
}

TEST(FilePolicy, aPolicyThatSkopeoWouldRefuseDoesNotAcceptAll) {
    for (const auto& text :
         {cat(R"({"default":)", accept, R"(,"transport":{"docker":{"":)", reject, "}}}"),
          cat(R"({"default":)", reject, R"(,"default":)", accept, "}"),
          std::string(R"({"default":[{"type":"insecureAcceptAnything","keyPath":"/key"}]})"),
          cat(R"({"default":)", accept, R"(,"transports":[]})"),
          cat(R"({"default":)", accept, R"(,"transports":{"docker":)", reject, "}}")}) {
        EXPECT_FALSE(policyAcceptsAll(text, "docker")) << text;
    }
}

TEST(FilePolicy, whatIsNoPolicyIsAnError) {
    for (const std::string text : {"", "[]", "{}", "nonsense"}) {
        EXPECT_THROW(policyAccepts(text, "oci", "/a"), Error) << text;
        EXPECT_THROW(policyAcceptsAll(text, "docker"), Error) << text;
    }
}

TEST(FilePolicy, theFileIsThatOfPolicyOptions) {
    const test::Scratch scratch;
    const auto system = scratch.write("system.json", "");
    EXPECT_EQ(policyFile(PolicyChoice{"/site", true}, scratch.path("home"), system), "/site");
    EXPECT_EQ(policyFile(PolicyChoice{"/site", false}, scratch.path("home"), system), system);
    const auto own = scratch.write("home/.config/containers/policy.json", "");
    EXPECT_EQ(policyFile(std::nullopt, scratch.path("home"), system), own);
}

}  // namespace
}  // namespace sarus::image::file_policy_test
