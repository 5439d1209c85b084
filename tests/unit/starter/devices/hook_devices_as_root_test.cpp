#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "starter/devices/hook_devices.hpp"

namespace sarus::starter::hook_devices_as_root_test {
namespace {

std::string describe(const std::vector<hook_contracts::HookDevice>& devices) {
    std::string text;
    for (const auto& rule : findDeviceRules(devices)) {
        text += cat(rule.type, ' ', *rule.major, ':', *rule.minor, ' ', rule.access, ';');
    }
    return text;
}

void makeDevice(const std::string& path, mode_t type, unsigned minorNumber) {
    checkErrno(::mknod(path.c_str(), type | 0600, makedev(10, minorNumber)), path);
}

TEST(HookDeviceRules, AreForDevicesAndForThoseInDirectories) {
    const test::TemporaryDirectory directory;
    const auto at = [&](const std::string& name) { return directory.path() + "/" + name; };
    makeDevice(at("one"), S_IFCHR, 1);
    createDirectories(at("dri/by-path"));
    makeDevice(at("dri/card0"), S_IFBLK, 2);
    makeDevice(at("dri/by-path/deeper"), S_IFCHR, 3);
    checkErrno(::symlink(at("one").c_str(), at("dri/link").c_str()), "symlink");
    replaceFile(at("dri/file"), "text", 0600);
    EXPECT_EQ(describe({{at("one"), "r"}, {at("dri"), "rw"}}), "c 10:1 r;b 10:2 rw;");
}

TEST(HookDeviceRules, EachDeviceCountsOnceForEachAccess) {
    EXPECT_EQ(describe({{"/dev/null", "rw"}, {"/dev/../dev/null", "rw"}, {"/dev/null", "r"}}),
              "c 1:3 rw;c 1:3 r;");
}

TEST(HookDeviceRules, WhatIsNoDeviceOrMissingIsLeftToTheHook) {
    EXPECT_EQ(describe({{"/nonexistent/device", "rw"}, {"/etc/passwd", "rw"}, {"/etc/passwd/x", "rw"}}), "");
}

std::string ofInventories(const std::string& directory, const std::string& value) {
    engine::ContainerPlan plan;
    plan.environment = {{"OTHER", "all"}, {"OCI_VENDOR", value}};
    plan.hooks.resize(1);
    plan.hooks[0].hook.path = "/opt/sarus/bin/decorator_hook";
    plan.hooks[0].hook.args = {"decorator_hook", "--config-dir=" + directory};
    std::string text;
    for (const auto& rule : findDeviceRulesOfHooks(plan)) {
        text += cat(rule.type, ' ', *rule.major, ':', *rule.minor, ' ', rule.access, ';');
    }
    return text;
}

TEST(HookDeviceRules, AreForTheDevicesOfVendorsWhichTheContainerAsksFor) {
    const test::TemporaryDirectory directory;
    checkErrno(::chmod(directory.path().c_str(), 0755), "chmod");
    replaceFile(directory / "vendor.json",
                R"({"activation_flag": "OCI_VENDOR", "driver_feature": ["a", "b"], "inventory": {
        "a": {"devices": ["null"]}, "b": {"devices": ["/dev/zero", "nothing-here"]}}})",
                0644);
    replaceFile(directory / "other.json", R"({"activation_flag": "OCI_OTHER", "driver_feature": ["a"],
        "inventory": {"a": {"devices": ["full"]}}})",
                0644);
    EXPECT_EQ(ofInventories(directory.path(), "all"), "c 1:3 rw;c 1:5 rw;");
    EXPECT_EQ(ofInventories(directory.path(), "b"), "c 1:5 rw;");
    EXPECT_EQ(ofInventories(directory.path(), "none"), "");
    EXPECT_EQ(ofInventories(directory.path(), "unknown"), "");
    checkErrno(::chmod((directory / "vendor.json").c_str(), 0666), "chmod");
    EXPECT_EQ(ofInventories(directory.path(), "all"), "") << "anybody could have written it";
}

}  // namespace
}  // namespace sarus::starter::hook_devices_as_root_test
