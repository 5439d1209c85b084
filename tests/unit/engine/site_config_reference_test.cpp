#include "engine/site_config_reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace sarus::engine::site_config_reference_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// How the texts of keys look, at all levels.
void expectGoodTexts(const std::vector<KeyDescription>& keys) {
    for (const auto& key : keys) {
        EXPECT_TRUE(!key.text.empty() && key.text.back() == '.' && key.text.front() != ' ') << key.name;
        EXPECT_EQ(std::count(key.text.begin(), key.text.end(), '`') % 2, 0) << key.name;
        expectGoodTexts(key.value().members);
    }
}

TEST(SiteConfigReference, EveryKeyHasAText) {
    ASSERT_GT(siteConfigKeys().size(), 30U);
    expectGoodTexts(siteConfigKeys());
}

TEST(SiteConfigReference, SchemaStatesTypesDefaultsAndRequiredKeys) {
    const auto schema = json::parse(siteConfigSchema());
    EXPECT_EQ(schema["additionalProperties"], false);
    EXPECT_EQ(schema["required"][0], "securityChecks");
    const auto& keys = schema["properties"];
    EXPECT_FALSE(keys["securityChecks"].contains("default")) << "required keys have none";
    EXPECT_EQ(keys["allowRootless"]["default"], true);
    EXPECT_EQ(keys["cdiSpecDirs"]["default"], json({"/etc/cdi", "/var/run/cdi"}));
    EXPECT_EQ(keys["imageMount"]["enum"], json({"kernel", "fuse", "kernel-for-root-owned"}));
    EXPECT_EQ(keys["registryTimings"]["properties"]["timeoutMs"]["default"], 600000);
    EXPECT_EQ(keys["repositoryMetadataLockTimings"]["properties"]["timeoutMs"]["default"], 60000);
    EXPECT_EQ(keys["siteMounts"]["items"]["required"], json({"type", "source", "destination"}));
}

TEST(SiteConfigReference, ManualNestsMembersAndMarksOurOwnKeys) {
    const auto manual = siteConfigManual();
    EXPECT_THAT(
        manual,
        HasSubstr(".TP\n.BR tempDir \" (required, path)\"\nDefault directory for temporary files.\n.TP\n"));
    EXPECT_THAT(manual, HasSubstr(".BR access \" (of the letters r, w and m, default \\(dqrwm\\(dq)\"\n"));
    EXPECT_THAT(
        manual,
        HasSubstr(".RS\n.TP\n.BR timeoutMs \" (integer, default 600000)\"\nAfter this time a pull fails.\n"));
    EXPECT_THAT(manual, HasSubstr("\\fBsarus run \\-\\-init\\fR"));
    const auto imageMount = manual.substr(manual.find(".BR imageMount"));
    EXPECT_THAT(imageMount.substr(0, imageMount.find(".TP")),
                HasSubstr("\nSarus 1.7 did not know this key.\n"));
    EXPECT_THAT(manual.substr(0, manual.find(".BR imageLimits")), Not(HasSubstr("1.7")));
}

}  // namespace
}  // namespace sarus::engine::site_config_reference_test
