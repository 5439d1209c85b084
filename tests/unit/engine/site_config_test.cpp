#include "engine/site_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"

namespace sarus::engine::site_config_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::string data = SARUS_SOURCE_DIR "/tests/data/sarus_json/";

json minimal() {
    return json::parse(readFile(data + "minimal.json"));
}

std::optional<Error> errorOf(const std::string& text) {
    try {
        parseSiteConfig(text, "/x/sarus.json");
    } catch (const Error& error) {
        return error;
    }
    return std::nullopt;
}

/// tests/integration/test_configuration_schema.py asks the JSON schema about the same cases.
TEST(SiteConfigCorpus, ParserJudgesLikeTheSchema) {
    const auto cases = json::parse(readFile(data + "cases.json"));
    ASSERT_GT(cases.size(), 100U);
    for (const auto& test : cases) {
        auto document = minimal();
        if (test.contains("set")) {
            document.update(test.at("set"));
        }
        for (const auto& key : test.value("remove", std::vector<std::string>{})) {
            document.erase(key);
        }
        const auto error = errorOf(document.dump());
        EXPECT_EQ(!error, test.at("valid").get<bool>())
            << test.at("name") << ": " << (error ? error->what() : "no error");
        if (error) {
            EXPECT_THAT(error->what(), HasSubstr("/x/sarus.json: ")) << test.at("name");
            EXPECT_THAT(error->what(), HasSubstr(test.at("message").get<std::string>())) << test.at("name");
        }
    }
}

TEST(SiteConfig, DocumentationExampleIsReadUnchanged) {
    const auto config = parseSiteConfig(readFile(data + "documentation_example.json"), "f");
    EXPECT_TRUE(config.securityChecks);
    EXPECT_EQ(config.ociBundleDir, "/var/sarus/OCIBundleDir");
    EXPECT_EQ(config.rootfsFolder, "rootfs");
    EXPECT_EQ(config.prefixDir, "/opt/sarus/1.6.3");
    EXPECT_EQ(config.hooksDir, "/opt/sarus/1.6.3/etc/hooks.d");
    EXPECT_EQ(config.tempDir, "/tmp");
    EXPECT_EQ(config.localRepositoryBaseDir, "/home");
    EXPECT_EQ(config.centralizedRepositoryDir, "/var/sarus/centralized_repository");
    EXPECT_EQ(config.skopeoPath, "/usr/bin/skopeo");
    EXPECT_EQ(config.umociPath, "/usr/bin/umoci");
    EXPECT_EQ(config.mksquashfsPath, "/usr/sbin/mksquashfs");
    EXPECT_EQ(config.mksquashfsOptions, "-comp gzip -processors 4 -Xcompression-level 6");
    EXPECT_EQ(config.initPath, std::nullopt);
    EXPECT_EQ(config.runcPath, "/usr/local/sbin/runc.amd64");
    EXPECT_EQ(config.ramFilesystemType, RamFilesystem::tmpfs);
    ASSERT_EQ(config.siteMounts.size(), 1U);
    EXPECT_EQ(config.siteMounts[0].source, "/home");
    EXPECT_EQ(config.siteMounts[0].destination, "/home");
    EXPECT_FALSE(config.siteMounts[0].readonly);
    ASSERT_EQ(config.siteDevices.size(), 1U);
    EXPECT_EQ(config.siteDevices[0].source, "/dev/fuse");
    EXPECT_EQ(config.siteDevices[0].destination, "/dev/fuse");
    EXPECT_EQ(config.siteDevices[0].access, "rw");
    EXPECT_THAT(config.environment.set, ElementsAre(Pair("VAR_TO_SET_IN_CONTAINER", "value")));
    EXPECT_THAT(config.environment.prepend,
                ElementsAre(Pair("VAR_WITH_LIST_OF_PATHS_IN_CONTAINER", "/path/to/prepend")));
    EXPECT_THAT(config.environment.append,
                ElementsAre(Pair("VAR_WITH_LIST_OF_PATHS_IN_CONTAINER", "/path/to/append")));
    EXPECT_THAT(config.environment.unset,
                ElementsAre("VAR_TO_UNSET_IN_CONTAINER_0", "VAR_TO_UNSET_IN_CONTAINER_1"));
    EXPECT_THAT(config.userMounts.notAllowedPrefixesOfPath, ElementsAre("/etc", "/var", "/opt/sarus"));
    EXPECT_THAT(config.userMounts.notAllowedPaths, ElementsAre("/opt"));
    EXPECT_EQ(config.seccompProfile, "/opt/sarus/1.6.3/etc/seccomp/default.json");
    EXPECT_TRUE(config.apparmorProfile.has_value());
    EXPECT_EQ(config.selinuxLabel, "system_u:system_r:svirt_sarus_t:s0:c124,c675");
    EXPECT_EQ(config.selinuxMountLabel, "system_u:object_r:svirt_sarus_file_t:s0:c715,c811");
    EXPECT_EQ(config.containersPolicy.value().path, "/opt/sarus/1.6.3/etc/policy.json");
    EXPECT_FALSE(config.containersPolicy.value().enforce);
    EXPECT_EQ(config.containersRegistriesDPath, "/opt/sarus/1.6.3/etc/registries.d");
    EXPECT_EQ(config.defaultMpiType, "mpich");
    EXPECT_EQ(config.lockTimeoutMs, 120000U);
    EXPECT_EQ(config.lockWarningMs, 15000U);
}

TEST(SiteConfig, AbsentOptionalKeysHaveTheDocumentedDefaults) {
    const auto config = parseSiteConfig(minimal().dump(), "f");
    EXPECT_EQ(config.hooksDir, std::nullopt);
    EXPECT_EQ(config.centralizedRepositoryDir, std::nullopt);
    EXPECT_EQ(config.mksquashfsOptions, "");
    EXPECT_TRUE(config.siteMounts.empty());
    EXPECT_TRUE(config.userMounts.notAllowedPaths.empty());
    EXPECT_TRUE(config.userMounts.notAllowedPrefixesOfPath.empty());
    EXPECT_EQ(config.lockTimeoutMs, 60000U);
    EXPECT_EQ(config.lockWarningMs, 10000U);
    EXPECT_EQ(config.registryTimeoutMs, 600000U);
    EXPECT_EQ(config.registryWarningMs, 20000U);
    EXPECT_EQ(config.enablePmixV3Support, std::nullopt);
    EXPECT_EQ(config.imageMount, ImageMountPolicy::kernel);
    EXPECT_TRUE(config.allowRootless);
}

TEST(SiteConfig, ValuesOfOurOwnKeysAreRead) {
    auto document = minimal();
    document["imageMount"] = "kernel-for-root-owned";
    document["allowRootless"] = false;
    document["enablePMIxv3Support"] = true;
    document["cdiSpecDirs"] = {"/a", "/b"};
    document["edfSystemSearchPath"] = {"/e"};
    document["ramFilesystemType"] = "ramfs";
    document["auditLog"] = "off";
    document["imagePolicy"] = {
        {"owners", {"root"}}, {"paths", {"/i"}}, {"digestsFile", "/d"}, {"verify", true}};
    document["containerLimits"] = {{"perUser", 5}, {"mounts", 6}};
    document["containerStorage"] = {{"directory", "/local"}, {"maxSize", 7}, {"scope", "global"}};
    document["allowExec"] = false;
    document["privilegedGroups"] = {"hpc", "100"};
    document["siteMounts"] = {
        {{"type", "bind"}, {"source", "/s"}, {"destination", "/d"}, {"flags", {{"readonly", ""}}}}};
    const auto config = parseSiteConfig(document.dump(), "f");
    EXPECT_EQ(config.imageMount, ImageMountPolicy::kernelForRootOwned);
    EXPECT_FALSE(config.allowRootless);
    EXPECT_EQ(config.enablePmixV3Support, true);
    EXPECT_EQ(config.ramFilesystemType, RamFilesystem::ramfs);
    EXPECT_TRUE(config.siteMounts.at(0).readonly);
    document["siteMounts"][0]["flags"] = {{"ro", ""}};
    EXPECT_TRUE(parseSiteConfig(document.dump(), "f").siteMounts.at(0).readonly);
    EXPECT_EQ(config.auditLog, AuditFacility::off);
    EXPECT_EQ(config.imagePolicy.owners, std::vector<std::string>{"root"});
    EXPECT_EQ(config.imagePolicy.digestsFile, "/d");
    EXPECT_TRUE(config.imagePolicy.verify);
    EXPECT_EQ(config.containerLimits.perUser, 5U);
    EXPECT_EQ(config.containerLimits.mounts, 6U);
    EXPECT_EQ(config.containerStorage.directory, "/local");
    EXPECT_EQ(config.containerStorage.maxSize, 7U);
    EXPECT_FALSE(config.containerStorage.perJob);
    EXPECT_TRUE(config.allowMount);
    EXPECT_FALSE(config.allowExec);
    EXPECT_EQ(config.privilegedGroups, (std::vector<std::string>{"hpc", "100"}));
    EXPECT_EQ(config.cdiSpecDirs, (std::vector<std::string>{"/a", "/b"}));
    EXPECT_EQ(config.edfSystemSearchPath, std::vector<std::string>{"/e"});
    EXPECT_EQ(parseSiteConfig(minimal().dump(), "f").edfSystemSearchPath,
              std::vector<std::string>{"/etc/edf"});
    EXPECT_EQ(parseSiteConfig(minimal().dump(), "f").cdiSpecDirs,
              (std::vector<std::string>{"/etc/cdi", "/var/run/cdi"}));
}

TEST(SiteConfig, UnknownKeysAreIgnoredAsBySarus17) {
    auto document = minimal();
    document["mksquashfsOption"] = "-comp gzip";
    document["zzzz"] = 1;
    document["siteMounts"] = {{{"type", "bind"}, {"source", "/s"}, {"destination", "/d"}}};
    document["siteMounts"][0]["flags"] = {{"size", "1"}, {"bind-propagation", "slave"}};
    EXPECT_FALSE(errorOf(document.dump()));
}

TEST(SiteConfig, MisspeltNewKeysGetASuggestion) {
    auto document = minimal();
    document["allowRootles"] = false;
    const auto error = errorOf(document.dump());
    ASSERT_TRUE(error);
    EXPECT_STREQ(error->what(), "/x/sarus.json: unknown key 'allowRootles'");
    EXPECT_EQ(error->hint(), "Did you mean 'allowRootless'?");
}

TEST(SiteConfig, MisspeltRulesForMountsGetASuggestion) {
    auto document = minimal();
    document["userMounts"]["notAllowedPath"] = json::array();
    EXPECT_EQ(errorOf(document.dump())->hint(), "Did you mean 'notAllowedPaths'?");
    document = minimal();
    document["siteMounts"] = {{{"type", "bind"}, {"source", "/s"}, {"destination", "/d"}}};
    document["siteMounts"][0]["flags"]["read-only"] = "";
    EXPECT_EQ(errorOf(document.dump())->hint(), "Did you mean 'readonly'?");
}

TEST(SiteConfig, SyntaxErrorsNameLineAndColumn) {
    const auto error = errorOf("{\n  \"securityChecks\": true,\n  }");
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr("/x/sarus.json: not valid JSON: parse error at line 3, column 3"));
}

TEST(SiteConfig, DocumentsOfAnotherKindAreRefused) {
    EXPECT_STREQ(errorOf("[]")->what(), "/x/sarus.json: the document: expected an object, found an array");
    EXPECT_THAT(errorOf("")->what(), HasSubstr("not valid JSON"));
    EXPECT_THAT(errorOf("{\"a\":\"\xFF\"}")->what(), HasSubstr("not valid JSON"));
    EXPECT_THAT(errorOf("{\"a\":1e999}")->what(), HasSubstr("not valid JSON: number overflow"));
    EXPECT_THAT(errorOf(std::string(100000, '['))->what(), HasSubstr("nested"));
    EXPECT_TRUE(errorOf(std::string(1'000'000, '[')));
}

TEST(SiteConfig, EscapeSequencesInKeysDoNotReachTheTerminal) {
    auto document = minimal();
    document["imageLimits"]["\x1b[31m"] = 1;
    EXPECT_STREQ(errorOf(document.dump())->what(), "/x/sarus.json: imageLimits: unknown key '\\x1b[31m'");
}

TEST(SiteConfigReview, NamesEveryProblemWithItsLine) {
    const auto review = reviewSiteConfig(R"({
        "securityChecks": "yes",
        "OCIBundleDir": "/bundles", "rootfsFolder": "rootfs", "prefixDir": "/opt/sarus",
        "tempDir": "tmp",
        "localRepositoryBaseDir": "/home", "skopeoPath": "/usr/bin/skopeo",
        "ramFilesystemType": "tmpfs",
        "allowRotless": true, "ramFilesystemTyp": "tmpfs", "umociPath": "/umoci",
        "siteMounts": [
            {"type": "bind", "source": "/a", "destination": "/b"},
            {"type": "bind", "source": "a",
             "destination": "b"}
        ],
        "environment": {"set": {"A": 1,
                                "B": 2}}
    })",
                                         "/x/sarus.json");
    std::vector<std::string> texts;
    for (const auto& problem : review.problems) {
        texts.emplace_back(problem.what());
    }
    EXPECT_THAT(texts,
                testing::UnorderedElementsAre(
                    "/x/sarus.json:2: securityChecks: expected true or false, found 'yes'",
                    "/x/sarus.json:4: tempDir: expected an absolute path, found 'tmp'",
                    "/x/sarus.json:7: unknown key 'allowRotless'",
                    "/x/sarus.json:10: siteMounts[1].source: expected an absolute path, found 'a'",
                    "/x/sarus.json:11: siteMounts[1].destination: expected an absolute path, found 'b'",
                    "/x/sarus.json:13: environment.set.A: expected a string, found 1",
                    "/x/sarus.json:14: environment.set.B: expected a string, found 2",
                    "/x/sarus.json: the required key 'runcPath' is missing"));
    ASSERT_EQ(review.warnings.size(), 1U);
    EXPECT_STREQ(review.warnings[0].what(),
                 "/x/sarus.json:7: ramFilesystemTyp: unknown key, ignored as by Sarus 1.7");
    ASSERT_EQ(review.notes.size(), 1U);
    EXPECT_THAT(review.notes[0].what(), HasSubstr("/x/sarus.json:7: umociPath: has no effect"));
    EXPECT_EQ(review.config.prefixDir, "/opt/sarus") << "what is valid counts";
    EXPECT_EQ(review.config.tempDir, "");
}

TEST(SiteConfigReview, AValidFileHasNoProblems) {
    const auto review = reviewSiteConfig(minimal().dump(), "f");
    EXPECT_TRUE(review.problems.empty());
    EXPECT_TRUE(review.warnings.empty());
    EXPECT_EQ(review.config.runcPath, parseSiteConfig(minimal().dump(), "f").runcPath);
}

TEST(SiteConfigReview, WarnsOfKeysThatOccurTwiceAndRefusesTextThatIsNoJson) {
    auto text = minimal().dump();
    text.insert(1, "\n\"tempDir\": \"/other\",\n");
    const auto warnings = reviewSiteConfig(text, "f").warnings;
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_STREQ(warnings[0].what(), "f:3: tempDir: the key is there twice, and the last one counts");
    const auto review = reviewSiteConfig("{\n\"a\": 1,,\n}", "f");
    ASSERT_EQ(review.problems.size(), 1U);
    EXPECT_THAT(review.problems[0].what(), HasSubstr("f: not valid JSON: parse error at line 2"));
}

}  // namespace
}  // namespace sarus::engine::site_config_test
