#include "engine/old_configuration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "engine/site_config.hpp"

namespace sarus::engine::old_configuration_test {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

const std::string data = SARUS_SOURCE_DIR "/tests/data/sarus_json/";

std::vector<std::string> findings(const std::string& text) {
    std::vector<std::string> lines;
    for (const auto& finding : checkOldConfiguration(text, "sarus.json")) {
        lines.push_back(cat(finding.key, ": ", finding.message, ". ", finding.hint));
    }
    return lines;
}

TEST(OldConfiguration, UnknownKeysAreNamed) {
    EXPECT_THAT(
        findings(R"({"skopeopath": "/x", "siteMounts": [{}, {"src": "/"}], "userMounts": {"zzzz": 1}})"),
        ElementsAre("skopeopath: unknown key, ignored as by Sarus 1.7. Did you mean 'skopeoPath'?",
                    "siteMounts[1].src: unknown key, ignored as by Sarus 1.7. Remove it",
                    "userMounts.zzzz: unknown key, ignored as by Sarus 1.7. Remove it"));
}

TEST(OldConfiguration, KeysWithoutEffectAreExplained) {
    EXPECT_THAT(findings(R"({"umociPath": "/u", "mksquashfsPath": "/m"})"),
                ElementsAre("umociPath: has no effect: Sarus unpacks images itself. Remove it",
                            "mksquashfsPath: has no effect: Sarus writes squashfs files itself, and reads "
                            "`mksquashfsOptions`. Remove it"));
}

TEST(OldConfiguration, NothingIsSaidAboutKeysThatHaveAnEffect) {
    auto document = json::parse(readFile(data + "documentation_example.json"));
    document.erase("umociPath");
    document.erase("mksquashfsPath");
    EXPECT_THAT(findings(document.dump()), IsEmpty());
}

TEST(OldConfiguration, EveryIgnoredKeyIsNamed) {
    std::size_t ignored = 0;
    for (const auto& test : json::parse(readFile(data + "cases.json"))) {
        if (!test.contains("ignored")) {
            continue;
        }
        ++ignored;
        std::vector<std::string> keys;
        for (const auto& finding : checkOldConfiguration(test.at("set").dump(), "f")) {
            keys.push_back(finding.key);
        }
        EXPECT_THAT(keys, Contains(test.at("ignored").get<std::string>())) << test.at("name");
    }
    EXPECT_GE(ignored, 7U);
}

TEST(OldConfiguration, EscapeSequencesInKeysDoNotReachTheTerminal) {
    EXPECT_THAT(findings("{\"\\u001b[31m\": 1}"),
                ElementsAre("\\x1b[31m: unknown key, ignored as by Sarus 1.7. Remove it"));
}

TEST(OldConfiguration, WhatIsNoObjectIsRefused) {
    EXPECT_THROW(checkOldConfiguration("[]", "f"), Error);
    EXPECT_THROW(checkOldConfiguration("{", "f"), Error);
    EXPECT_THROW(checkOldConfiguration(std::string(1'000'000, '['), "f"), Error);
    EXPECT_THAT(findings(R"({"userMounts": 1, "siteMounts": {"a": 1}, "siteDevices": [1]})"), IsEmpty());
}

}  // namespace
}  // namespace sarus::engine::old_configuration_test
