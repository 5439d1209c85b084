#include "hook_contracts/inventory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::hook_contracts::inventory_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view vendorText = R"({
    "version": "396.26", "log_level": "LOG_DEBUG", "activation_flag": "OCI_NVIDIA", "driver_feature": ["utility", "compute"],
    "inventory": {
        "compute": {"devices": ["nvidia0", "/dev/nvidiactl"], "binaries": ["/usr/bin/mps"],
                    "libraries": ["/usr/lib64/nvidia/libcuda.so"], "directories": ["/usr/lib64/nvidia"], "miscellaneous": ["/etc/a.conf"]},
        "utility": {"devices": ["nvidia0"], "directories": ["/usr/lib64/nvidia"]},
        "hidden": {}
    }
})";

Inventory vendor() {
    return parseInventory(vendorText, "nvidia.cfg");
}

std::string message(std::string_view text) {
    try {
        parseInventory(text, "x.json");
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

std::string withFeature(std::string_view feature) {
    return std::string(R"({"activation_flag": "F", "driver_feature": ["a"], "inventory": {"a": )")
        .append(feature)
        .append("}}");
}

TEST(Inventory, IsReadAsDocumented) {
    const auto inventory = vendor();
    EXPECT_EQ(inventory.version, "396.26");
    EXPECT_EQ(inventory.logLevel, LogLevel::debug);
    EXPECT_EQ(inventory.activationFlag, "OCI_NVIDIA");
    EXPECT_THAT(inventory.features, ElementsAre("utility", "compute"));
    const auto& compute = inventory.contents.at("compute");
    EXPECT_THAT(compute.devices, ElementsAre("/dev/nvidia0", "/dev/nvidiactl"));
    EXPECT_THAT(compute.binaries, ElementsAre("/usr/bin/mps"));
    EXPECT_THAT(compute.libraries, ElementsAre("/usr/lib64/nvidia/libcuda.so"));
    EXPECT_THAT(compute.directories, ElementsAre("/usr/lib64/nvidia"));
    EXPECT_THAT(compute.miscellaneous, ElementsAre("/etc/a.conf"));
}

TEST(Inventory, FeaturesTogetherHoldEachPathOnce) {
    const auto inventory = vendor();
    const auto merged = mergeFeatures(inventory, inventory.features);
    EXPECT_THAT(merged.devices, ElementsAre("/dev/nvidia0", "/dev/nvidiactl"));
    EXPECT_THAT(merged.directories, ElementsAre("/usr/lib64/nvidia"));
}

TEST(Inventory, MistakesAreNamedWithFileAndKey) {
    EXPECT_THAT(message("{"), HasSubstr("x.json: not valid JSON"));
    EXPECT_THAT(message("[]"), HasSubstr("x.json: the document: expected an object"));
    EXPECT_THAT(message("{}"), HasSubstr("\"activation_flag\" is missing"));
    EXPECT_THAT(message(R"({"activation_flag": "F", "inventory": {}})"),
                HasSubstr("\"driver_feature\" is missing"));
    EXPECT_THAT(message(R"({"activation_flag": "F", "driver_feature": []})"),
                HasSubstr("\"inventory\" is missing"));
    EXPECT_THAT(message(R"({"activation_flags": "F"})"), HasSubstr("activation_flags: unknown key"));
    EXPECT_THAT(message(R"({"activation_flag": ""})"), HasSubstr("activation_flag: expected a name"));
    EXPECT_THAT(message(R"({"activation_flag": "A=B"})"), HasSubstr("activation_flag: expected a name"));
    EXPECT_THAT(message(R"({"log_level": "LOUD"})"), HasSubstr("log_level: expected one of LOG_DEBUG"));
    EXPECT_THAT(message(R"({"activation_flag": "F", "driver_feature": ["a"], "inventory": {}})"),
                HasSubstr("'a' has no object"));
    EXPECT_THAT(message(R"({"activation_flag": "F", "driver_feature": ["a", "a"], "inventory": {"a": {}}})"),
                HasSubstr("twice"));
    EXPECT_THAT(message(R"({"activation_flag": "F", "driver_feature": ["none"], "inventory": {"none": {}}})"),
                HasSubstr("'none' cannot be the name"));
    EXPECT_THAT(message(withFeature(R"({"library": []})")), HasSubstr("inventory.a.library: unknown key"));
}

TEST(Inventory, PathsCannotLeaveTheirPlace) {
    EXPECT_EQ(message(withFeature(R"({"libraries": ["/usr/lib/a.so"], "devices": ["dri/card0"]})")),
              "accepted");
    for (const auto* path : {"a", "", "/a/../b", "/./a", "//a", "/a/", "/", "/a\\u0000b"}) {
        for (const auto* list : {"binaries", "libraries", "directories", "miscellaneous"}) {
            const auto feature = std::string("{\"") + list + "\": [\"" + path + "\"]}";
            EXPECT_THAT(message(withFeature(feature)), HasSubstr("expected")) << feature;
        }
    }
    for (const auto* name : {"", "../etc/shadow", "/etc/shadow", "a//b", "/dev/", "/dev/../a"}) {
        EXPECT_THAT(message(withFeature(std::string(R"({"devices": [")") + name + R"("]})")),
                    HasSubstr("expected"))
            << name;
    }
}

TEST(Activation, AllAndAnEmptyValueMeanAll) {
    for (const auto* value : {"all", "", " all ", "utility,all", "ALL", "1", "true", "True", "yes", "on"}) {
        EXPECT_THAT(selectFeatures(vendor(), value), ElementsAre("utility", "compute")) << value;
    }
}

TEST(Activation, SomeWordsMeanOff) {
    for (const auto* value : {"none", "void", "0", "NONE", "false", "no", "off"}) {
        EXPECT_THAT(selectFeatures(vendor(), value), IsEmpty()) << value;
    }
}

TEST(Activation, ListIsAppliedInTheOrderOfTheInventory) {
    EXPECT_THAT(selectFeatures(vendor(), "compute"), ElementsAre("compute"));
    EXPECT_THAT(selectFeatures(vendor(), "compute, utility,compute"), ElementsAre("utility", "compute"));
}

TEST(Activation, UnknownFeatureIsAnError) {
    for (const auto* value :
         {"video", "compute,video", "2", ",", "compute,", "none,compute", "hidden", "compute utility"}) {
        EXPECT_THROW(selectFeatures(vendor(), value), Error) << value;
    }
    try {
        selectFeatures(vendor(), "compute,vid\neo");
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(),
                    HasSubstr("OCI_NVIDIA holds 'vid\\x0aeo', which is not a feature of nvidia.cfg"));
        EXPECT_EQ(error.hint(), "There are: all, none, utility, compute");
    }
}

TEST(Activation, HugeValueIsRefusedWithoutRepeatingIt) {
    try {
        selectFeatures(vendor(), std::string(1U << 20U, 'x'));
        FAIL();
    } catch (const Error& error) {
        EXPECT_LT(std::string(error.what()).size(), 200U);
    }
}

}  // namespace
}  // namespace sarus::hook_contracts::inventory_test
