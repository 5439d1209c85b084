#include "oci/runtime/bundle_config.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci::bundle_config_test {
namespace {

BundleConfig config(std::string_view json) {
    return BundleConfig::parse(json, "config.json");
}

TEST(BundleConfig, keepsUnknownKeysTheirOrderAndNumbers) {
    for (
        const char* text : {
            R"({"zeta":{"b":1,"a":[null,true,false,"x"]},"alpha":18446744073709551615})",
            R"({"n":[-9223372036854775808,9223372036854775807,9223372036854775808,0]})",
            R"({"linux":{"seccomp":{"syscalls":[{"args":[{"value":18446744073709551614,"valueTwo":2080505856}]}]}}})",
            R"({"text":"tab\t quote\" back\\ slash/ umlaut ü euro € clef 𝄞"})",
            R"({"ratio":0.1,"tiny":1e-300,"third":0.3333333333333333})",
        }) {
        EXPECT_EQ(config(text).serialize(), text);
    }
}

TEST(BundleConfig, refusesIntegersThatWouldLoseDigits) {
    EXPECT_THROW(config(R"({"n":18446744073709551616})"), Error);
    EXPECT_THROW(config(R"({"n":[-9223372036854775809]})"), Error);
}

TEST(BundleConfig, refusesWhatIsNotOneObject) {
    for (const char* text : {"", "[]", "null", "{} {}", "{\"a\":1e400}", "{\"a\":\"\xc3\"}",
                             R"({"a":"\ud800"})", "{,}", "\x00"}) {
        EXPECT_THROW(config(text), Error) << text;
    }
    EXPECT_THROW(config(R"({"x":)" + std::string(500000, '[')), Error);
}

constexpr const char* configText = R"({
  "root": {"path": "rootfs"},
  "process": {"user": {"uid": 1000, "gid": 100, "additionalGids": [4, 24]}, "args": ["sh", "-c", "x"],
              "env": ["A=1", "PATH=/bin", "A=2", 7, "AB=3", "EMPTY="]},
  "annotations": {"k": "v"},
  "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/d", "source": "/s", "options": ["rbind"], "x": 1}],
  "linux": {"uidMappings": [{"containerID": 0, "hostID": 100000, "size": 65536}], "cgroupsPath": "/a/b",
            "namespaces": [{"type": "mount"}, {"type": "pid", "path": "/proc/1/ns/pid"}],
            "devices": [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 438, "uid": 0, "gid": 0}]}
})";

TEST(BundleConfig, refusesWhatIsNestedTooDeep) {
    const auto nested = [](std::size_t levels) {
        return cat(R"({"a":)", std::string(levels - 1, '['), std::string(levels - 1, ']'), "}");
    };
    EXPECT_EQ(BundleConfig::parse(nested(200), "c").serialize(), nested(200));
    for (const std::size_t levels : {std::size_t{201}, std::size_t{1'000'000}}) {
        try {
            BundleConfig::parse(nested(levels), "config.json");
            ADD_FAILURE() << levels;
        } catch (const Error& error) {
            EXPECT_STREQ(error.what(), "config.json is nested deeper than 200 levels");
        }
    }
}

TEST(BundleConfig, readsWhatHooksNeed) {
    const auto c = config(configText);
    EXPECT_EQ(c.rootPath(), "rootfs");
    EXPECT_EQ(c.user().uid, 1000U);
    EXPECT_EQ(c.user().gid, 100U);
    EXPECT_EQ(c.user().additionalGids, (std::vector<gid_t>{4, 24}));
    EXPECT_EQ(c.arguments(), (std::vector<std::string>{"sh", "-c", "x"}));
    EXPECT_EQ(c.annotations().at("k"), "v");
    EXPECT_TRUE(c.hasNamespace("pid"));
    EXPECT_FALSE(c.hasNamespace("user"));
    ASSERT_EQ(c.uidMappings().size(), 1U);
    EXPECT_EQ(c.uidMappings()[0].hostId, 100000U);
    EXPECT_TRUE(c.gidMappings().empty());
}

TEST(BundleConfig, givesTheLastVariableOfAName) {
    const auto c = config(configText);
    EXPECT_EQ(c.variable("A"), "2");
    EXPECT_EQ(c.variable("EMPTY"), "");
    EXPECT_EQ(c.variable("B"), std::nullopt);
    EXPECT_EQ(c.variable("PAT"), std::nullopt);
}

TEST(BundleConfig, readsAbsentKeysAsEmpty) {
    const auto c = config("{}");
    EXPECT_EQ(c.rootPath(), "");
    EXPECT_TRUE(c.arguments().empty());
    EXPECT_EQ(c.user().uid, 0U);
}

TEST(BundleConfig, namesTheKeyOfAWrongType) {
    try {
        config(R"({"process":{"user":{"uid":"root"}}})").user();
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("process.user.uid"), std::string::npos) << error.what();
    }
    EXPECT_THROW(config(R"({"process":[]})").variable("A"), Error);
    EXPECT_THROW(config(R"({"process":{"env":{}}})").variable("A"), Error);
    EXPECT_THROW(config(R"({"root":{"path":1}})").rootPath(), Error);
    EXPECT_THROW(config(R"({"process":{"user":{"uid":4294967296}}})").user(), Error);
    EXPECT_THROW(config(R"({"process":{"env":"A=1"}})").setVariable("A", "2"), Error);
    EXPECT_THROW(config(R"({"mounts":{}})").addMount({"/d", {}, "/s", {}}), Error);
}

TEST(BundleConfig, replacesTheLastVariableInItsPlaceOrAppends) {
    auto c = config(R"({"process":{"env":["A=1","B=2","A=3","C=4"]}})");
    c.setVariable("A", "new=x");
    c.setVariable("D", "");
    EXPECT_EQ(c.serialize(), R"({"process":{"env":["A=1","B=2","A=new=x","C=4","D="]}})");
}

TEST(BundleConfig, createsWhatIsMissingOnTheWay) {
    auto c = config(R"({"first":1})");
    c.setVariable("A", "1");
    c.addMount({"/d", "bind", "/s", std::vector<std::string>{"rbind", "ro"}});
    c.setDevice({"/dev/x", 'c', 1, 2, 0600, 0U, 0U});
    c.appendDeviceRule({true, 'c', 1, 2, "rw"});
    c.addAdditionalGid(44);
    c.addAdditionalGid(44);
    c.appendHook("createContainer", {"/h", {"h", "x"}, {"E=1"}, 5});
    EXPECT_EQ(
        c.serialize(),
        R"({"first":1,"process":{"env":["A=1"],"user":{"additionalGids":[44]}},)"
        R"("mounts":[{"destination":"/d","type":"bind","source":"/s","options":["rbind","ro"]}],)"
        R"("linux":{"devices":[{"path":"/dev/x","type":"c","major":1,"minor":2,"fileMode":384,"uid":0,"gid":0}],)"
        R"("resources":{"devices":[{"allow":true,"type":"c","major":1,"minor":2,"access":"rw"}]}},)"
        R"("hooks":{"createContainer":[{"path":"/h","args":["h","x"],"env":["E=1"],"timeout":5}]}})");
}

TEST(BundleConfig, readsDeviceRules) {
    const auto c = config(R"({"linux":{"resources":{"devices":[{"allow":false,"access":"rwm"},
        {"allow":true,"type":"b","major":7,"minor":-1,"access":"r"},{"allow":true,"type":"c","major":10,"minor":229}]}}})");
    const auto rules = c.deviceRules();
    ASSERT_EQ(rules.size(), 3U);
    EXPECT_TRUE(!rules[0].allow && rules[0].type == 'a' && !rules[0].major && rules[0].access == "rwm");
    EXPECT_TRUE(rules[1].allow && rules[1].type == 'b' && rules[1].major == 7 && !rules[1].minor &&
                rules[1].access == "r");
    EXPECT_TRUE(rules[2].type == 'c' && rules[2].major == 10 && rules[2].minor == 229 &&
                rules[2].access == "rwm");
    EXPECT_TRUE(config("{}").deviceRules().empty());
}

TEST(BundleConfig, refusesBadDeviceRules) {
    for (const auto* rule : {R"({"allow":1})", R"({"type":"u"})", R"({"type":"cb"})", R"({"major":-2})",
                             R"({"minor":4294967296})", R"({"access":"x"})", R"("c")"}) {
        const auto c = config(cat(R"({"linux":{"resources":{"devices":[)", rule, "]}}}"));
        EXPECT_THROW(c.deviceRules(), Error) << rule;
    }
}

TEST(BundleConfig, leavesOutTypeAndOptionsThatAreAbsentAndKeepsEmptyOnes) {
    auto c = config("{}");
    c.addMount({"/a", std::nullopt, "/s", std::nullopt});
    c.addMount({"/b", "", "/s", std::vector<std::string>{}});
    EXPECT_EQ(
        c.serialize(),
        R"({"mounts":[{"destination":"/a","source":"/s"},{"destination":"/b","type":"","source":"/s","options":[]}]})");
}

TEST(BundleConfig, replacesADeviceOfTheSamePath) {
    auto c = config(
        R"({"linux":{"devices":[{"path":"/dev/fuse","type":"c","major":10,"minor":229,"uid":0},{"path":"/dev/x"}]}})");
    c.setDevice({"/dev/fuse", 'c', 1, 3, {}, {}, {}});
    EXPECT_EQ(
        c.serialize(),
        R"({"linux":{"devices":[{"path":"/dev/fuse","type":"c","major":1,"minor":3},{"path":"/dev/x"}]}})");
}

TEST(BundleConfig, tellsItsMounts) {
    const auto mounts =
        config(R"({"mounts":[{"destination":"/a","type":"bind","source":"/b","options":["ro"],"x":1},)"
               R"({"destination":"/c","type":null}]})")
            .mounts();
    ASSERT_EQ(mounts.size(), 2U);
    EXPECT_EQ(mounts[0].source + mounts[0].destination + *mounts[0].type, "/b/abind");
    EXPECT_EQ(mounts[0].options, std::vector<std::string>{"ro"});
    EXPECT_TRUE(mounts[1].destination == "/c" && mounts[1].source.empty() && !mounts[1].type);
    EXPECT_THROW(config(R"({"mounts":[{"destination":1}]})").mounts(), Error);
}

}  // namespace
}  // namespace sarus::oci::bundle_config_test
