#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "starter/hook_devices.hpp"

namespace sarus::starter {
namespace {

std::string describe(const std::vector<engine::HookDevice>& devices) {
    std::string text;
    for (const auto& rule : findDeviceRules(devices)) {
        text += cat(rule.type, ' ', rule.major, ':', rule.minor, ' ', rule.access, ';');
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
    EXPECT_EQ(describe({{"/dev/null", "rw"}, {"/dev/../dev/null", "rw"}, {"/dev/null", "r"}}), "c 1:3 rw;c 1:3 r;");
}

TEST(HookDeviceRules, WhatIsNoDeviceOrMissingIsLeftToTheHook) {
    EXPECT_EQ(describe({{"/nonexistent/device", "rw"}, {"/etc/passwd", "rw"}, {"/etc/passwd/x", "rw"}}), "");
}

}  // namespace
}  // namespace sarus::starter
