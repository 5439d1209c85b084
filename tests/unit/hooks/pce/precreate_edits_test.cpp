#include "hooks/pce/precreate_edits.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks::pce::precreate_edits_test {
namespace {

using Json = nlohmann::ordered_json;
using oci::BundleConfig;
using ::testing::HasSubstr;

Json edited(const std::string& edits, const std::string& config = "{}", bool inUserNamespace = false) {
    auto bundle = BundleConfig::parse(config, "config.json");
    applyPrecreateEdits(parsePrecreateEdits(cat(R"({"containerEdits": [)", edits, "]}"), "edits.json"),
                        inUserNamespace, bundle);
    return Json::parse(bundle.serialize());
}

std::string failure(const std::string& edits) {
    try {
        edited(edits);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

TEST(PrecreateEdits, nothingIsChangedWithoutEdits) {
    for (const char* text : {"{}", R"({"precreate": null})", R"({"containerEdits": []})",
                             R"({"containerEdits": [{}], "other": 1})"}) {
        auto config = BundleConfig::parse(R"({"a": 18446744073709551615, "process": null})", "config.json");
        applyPrecreateEdits(parsePrecreateEdits(text, "edits.json"), false, config);
        EXPECT_EQ(config.serialize(), R"({"a":18446744073709551615,"process":null})") << text;
    }
}

TEST(PrecreateEdits, mountsAreAppendedAsTheyAre) {
    const auto config = edited(
        R"({"mounts": [{"hostPath": "../a", "containerPath": "/b", "type": null, "options": ["rbind"], "x": 1}]},
                                  {"mounts": [{"hostPath": "/c", "containerPath": "/proc", "type": "bind", "options": []}]})",
        R"({"mounts": [{"destination": "/proc"}]})");
    EXPECT_EQ(
        config,
        Json::parse(
            R"({"mounts": [{"destination": "/proc"}, {"destination": "/b", "source": "../a", "options": ["rbind"]},
                                                {"destination": "/proc", "type": "bind", "source": "/c", "options": []}]})"));
}

TEST(PrecreateEdits, mountsBelowOthersComeAfterThem) {
    const auto mount = [](const char* path) {
        return cat(R"({"mounts": [{"hostPath": "/h", "containerPath": ")", path,
                   R"(", "options": ["bind"]}]})");
    };
    const auto config = edited(
        join(std::vector<std::string>{mount("/opt/a/b"), mount("/opt/ab"), mount("/opt/a/"), mount("/opt/a")},
             ", "),
        R"({"mounts": [{"destination": "/"}, {"destination": "/opt/a/b/c"}]})");
    std::vector<std::string> destinations;
    for (const auto& item : config["mounts"]) {
        destinations.push_back(item["destination"]);
    }
    EXPECT_THAT(destinations,
                ::testing::ElementsAre("/", "/opt/a/", "/opt/a", "/opt/a/b", "/opt/a/b/c", "/opt/ab"));
}

TEST(PrecreateEdits, mountsThatCannotBeMeantAreErrors) {
    const auto refusal = [](const char* mount) {
        try {
            parsePrecreateEdits(cat(R"({"containerEdits": [{"mounts": [{"hostPath": "/h", )", mount, "}]}]}"),
                                "edits.json");
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    for (const auto* destination : {"", "relative", "../x"}) {
        EXPECT_THAT(
            refusal(cat(R"("containerPath": ")", destination, R"(", "options": ["bind"])").c_str()),
            HasSubstr("edits.json: containerEdits[0].mounts[0].containerPath: expected an absolute path"));
    }
    EXPECT_EQ(refusal(R"("containerPath": "/x", "type": "tmpfs")"), "accepted");
}

TEST(PrecreateEdits, pathsOfTheHostAreBoundWithAllBelowThem) {
    for (const auto& [rest, options] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"", {"rbind"}},
             {R"(, "options": null)", {"rbind"}},
             {R"(, "type": "none", "options": ["ro"])", {"rbind", "ro"}},
             {R"(, "type": "", "options": ["ro", "bind"])", {"ro", "bind"}},
             {R"(, "type": "bind", "options": ["ro"])", {"ro"}}}) {
        const auto config =
            edited(cat(R"({"mounts": [{"hostPath": "/h", "containerPath": "/x")", rest, "}]}"), "{}");
        EXPECT_EQ(config["mounts"][0].value("options", std::vector<std::string>()), options) << rest;
    }
}

TEST(PrecreateEdits, keyThatIsThereTwiceIsAnError) {
    for (const auto* text : {R"({"containerEdits": [], "containerEdits": []})",
                             R"({"containerEdits": [{"env": ["A=1"], "mounts": [], "env": ["B=1"]}]})"}) {
        try {
            parsePrecreateEdits(text, "edits.json");
            ADD_FAILURE() << text;
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr("edits.json: the key '"));
            EXPECT_THAT(error.what(), HasSubstr("' is there twice"));
        }
    }
    EXPECT_EQ(parsePrecreateEdits(R"({"containerEdits": [{"env": ["A=1"]}, {"env": ["B=1"]}]})", "edits.json")
                  .size(),
              2U);
}

TEST(PrecreateEdits, theLastVariableOfANameIsReplaced) {
    const auto config = edited(R"({"env": ["A=x=y", "NEW="]}, {"env": ["NEW=2"]})",
                               R"({"process": {"env": ["A=1", "B=2", "A=3"]}})");
    EXPECT_EQ(config, Json::parse(R"({"process": {"env": ["A=1", "B=2", "A=x=y", "NEW=2"]}})"));
}

TEST(PrecreateEdits, aDeviceTakesWhatIsOpenFromTheHost) {
    const auto config = edited(
        R"({"deviceNodes": [{"path": "/dev/nothing", "hostPath": "/dev/null", "permissions": "wr"}]})",
        R"({"process": {"user": {"uid": 1000, "gid": 0}}, "linux": {"devices": [{"path": "/dev/nothing"}]}})");
    EXPECT_EQ(
        config["linux"]["devices"],
        Json::parse(
            R"([{"path": "/dev/nothing", "type": "c", "major": 1, "minor": 3, "fileMode": 438, "uid": 1000}])"));
    EXPECT_EQ(config["linux"]["resources"]["devices"],
              Json::parse(R"([{"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rw"}])"));
}

TEST(PrecreateEdits, aDeviceWhichIsDescribedInFullNeedNotBeThere) {
    const auto config = edited(
        R"({"deviceNodes": [{"path": "/dev/none", "type": "b", "major": 7, "minor": 9, "fileMode": 384, "uid": 1, "gid": 2,
                                                    "permissions": "none"}, {"path": "/dev/pipe", "type": "p"}]})");
    EXPECT_EQ(
        config["linux"],
        Json::parse(
            R"({"devices": [{"path": "/dev/none", "type": "b", "major": 7, "minor": 9, "fileMode": 384, "uid": 1, "gid": 2},
                                                          {"path": "/dev/pipe", "type": "p"}]})"));
}

TEST(PrecreateEdits, devicesAreMountedInAUserNamespace) {
    const std::string node = R"({"deviceNodes": [{"path": "/dev/x", "hostPath": "/dev/null"}]})";
    const auto mount = Json::parse(
        R"({"destination": "/dev/x", "type": "bind", "source": "/dev/null", "options": ["bind", "nosuid", "noexec"]})");
    EXPECT_EQ(edited(node, "{}", true), Json::parse(cat(R"({"mounts": [)", mount.dump(), "]}")));
    const auto container = edited(node, R"({"linux": {"namespaces": [{"type": "user"}]}})");
    EXPECT_EQ(container["mounts"][0], mount);
    EXPECT_FALSE(container["linux"].contains("devices"));
    EXPECT_EQ(container["linux"]["resources"]["devices"].size(), 1U);
}

TEST(PrecreateEdits, hooksGroupsAndCacheAllocationAreApplied) {
    const auto config = edited(
        R"({"hooks": [{"hookName": "createContainer", "path": "/h", "args": ["h", "x"], "env": ["A=b"], "timeout": 5},
                                            {"hookName": "poststop", "path": "/p"}],
                                   "additionalGids": [0, 44, 45, 44], "intelRdt": {"closID": "c", "l3CacheSchema": "L3:0=f"}})",
        R"({"process": {"user": {"additionalGids": [45]}}, "hooks": {"createContainer": [{"path": "/first"}]},
                                   "linux": {"intelRdt": {"memBwSchema": "old"}}})");
    EXPECT_EQ(
        config["hooks"],
        Json::parse(
            R"({"createContainer": [{"path": "/first"}, {"path": "/h", "args": ["h", "x"], "env": ["A=b"], "timeout": 5}],
                                              "poststop": [{"path": "/p"}]})"));
    EXPECT_EQ(config["process"]["user"]["additionalGids"], Json::parse("[45, 44]"));
    EXPECT_EQ(config["linux"]["intelRdt"], Json::parse(R"({"closID": "c", "l3CacheSchema": "L3:0=f"})"));
}

TEST(PrecreateEdits, whatIsNotAppliedIsNamed) {
    EXPECT_THAT(failure(R"({"netDevices": [{"hostInterfaceName": "eth9"}]})"),
                HasSubstr("containerEdits[0]: edits of 'netDevices' are not supported"));
    EXPECT_THAT(failure(R"({}, {"intelRdt": {"schemata": ["x"]}})"),
                HasSubstr("containerEdits[1]: edits of 'intelRdt.schemata' are not"));
    EXPECT_THAT(failure(R"({"intelRdt": {"enableMonitoring": true}})"),
                HasSubstr("'intelRdt.enableMonitoring'"));
}

TEST(PrecreateEdits, badDevicesAreErrors) {
    EXPECT_THAT(failure(R"({"deviceNodes": [{"path": "/dev/none"}]})"),
                HasSubstr("Failed to examine the device /dev/none for the container: No such file"));
    EXPECT_THAT(failure(R"({"deviceNodes": [{"path": "/dev/x", "hostPath": "/etc"}]})"),
                HasSubstr("/etc is not a device"));
    EXPECT_THAT(failure(R"({"deviceNodes": [{"path": "/dev/x", "hostPath": "/dev/null", "type": "b"}]})"),
                HasSubstr("/dev/null is not a device of type 'b'"));
    EXPECT_THAT(failure(R"({"deviceNodes": [{"path": "relative"}]})"),
                HasSubstr("deviceNodes[0].path: expected an absolute path"));
    EXPECT_THAT(failure(R"({"deviceNodes": [{"path": "/dev/x", "unknown": 1}]})"),
                HasSubstr("unknown key 'unknown'"));
}

TEST(PrecreateEdits, wrongTypesAreNamedWithTheirPlace) {
    for (const char* text : {"[]", R"({"containerEdits": {}})", R"({"containerEdits": null})",
                             R"({"containerEdits": [{"env": null}]})", R"({"precreate": 1})"}) {
        try {
            parsePrecreateEdits(text, "edits.json");
            ADD_FAILURE() << text;
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), HasSubstr("invalid type or value: edits.json")) << text;
        }
    }
    EXPECT_THROW(parsePrecreateEdits("{", "edits.json"), Error);
}

}  // namespace
}  // namespace sarus::hooks::pce::precreate_edits_test
