#include "engine/mount_rules.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::engine::mount_rules_test {
namespace {

std::string whyNot(const UserMountRules& rules, std::string_view destination) {
    try {
        checkUserMountDestination(rules, destination, "R");
    } catch (const Error& error) {
        return error.what();
    }
    return "allowed";
}

TEST(UserMountRules, WithoutRulesEverythingButTheEnginesOwnIsAllowed) {
    EXPECT_EQ(whyNot({}, "/etc"), "allowed");
    EXPECT_EQ(whyNot({}, "/dev/shm/x"), "allowed");
    EXPECT_EQ(whyNot({}, "/.."), "Invalid mount request 'R': '/' is not allowed as mount destination");
    EXPECT_EQ(whyNot({}, "//dev/"), "Invalid mount request 'R': '/dev' is not allowed as mount destination");
    EXPECT_EQ(whyNot({}, "/proc/self"),
              "Invalid mount request 'R': destination cannot be a subdirectory of '/proc'");
    EXPECT_EQ(whyNot({}, "/sys"),
              "Invalid mount request 'R': destination cannot be a subdirectory of '/sys'");
    EXPECT_EQ(whyNot({}, "/system"), "allowed");
}

TEST(UserMountRules, WhatTheRuntimeMakesInDevIsTheEnginesOwn) {
    for (const std::string name : {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx",
                                   "pts", "fd", "stdin", "stdout", "stderr", "core"}) {
        EXPECT_TRUE(whyEnginesOwn(cat("/dev/", name))) << name;
        EXPECT_TRUE(whyEnginesOwn(cat("//dev/x/../", name, "/below"))) << name;
        EXPECT_TRUE(whyNotMountable({}, cat("/dev/", name))) << name;
        EXPECT_FALSE(whyEnginesOwn(cat("/dev/", name, "2"))) << name;
    }
    for (const auto* path : {"/dev/shm", "/dev/shm/x", "/dev/mqueue", "/dev/nullx", "/dev/dri/null", "/null",
                             "/x/dev/null", "/dev/fuse"}) {
        EXPECT_FALSE(whyEnginesOwn(path)) << path;
    }
    EXPECT_TRUE(whyEnginesOwn("/sys/class/x"));
}

TEST(UserMountRules, PrefixesCoverTheDirectoryAndAllBelow) {
    const UserMountRules rules{{"/etc", "/opt/sarus"}, {}};
    const std::string etc = "Invalid mount request 'R': destination cannot be a subdirectory of '/etc'";
    for (const auto* path :
         {"/etc", "/etc/", "/etc/passwd", "//etc", "/./etc", "/a/../etc", "/etc/../etc/x", "/../etc"}) {
        EXPECT_EQ(whyNot(rules, path), etc) << path;
    }
    EXPECT_EQ(whyNot(rules, "/opt/sarus/bin"),
              "Invalid mount request 'R': destination cannot be a subdirectory of '/opt/sarus'");
    for (const auto* path : {"/opt", "/opt/sarus2", "/etcetera", "/etc2/etc", "/home/etc", "/etc/../home"}) {
        EXPECT_EQ(whyNot(rules, path), "allowed") << path;
    }
}

TEST(UserMountRules, PathsCoverThemselvesOnly) {
    const UserMountRules rules{{}, {"/opt"}};
    for (const auto* path : {"/opt", "/opt/", "//opt", "/x/../opt/."}) {
        EXPECT_EQ(whyNot(rules, path),
                  "Invalid mount request 'R': '/opt' is not allowed as mount destination")
            << path;
    }
    EXPECT_EQ(whyNot(rules, "/opt/cray"), "allowed");
    EXPECT_EQ(whyNot(rules, "/opt2"), "allowed");
}

TEST(UserMountRules, RulesThemselvesMayBeWrittenCarelessly) {
    EXPECT_NE(whyNot({{"//scratch/"}, {}}, "/scratch/x"), "allowed");
    EXPECT_NE(whyNot({{}, {"/opt/../srv/"}}, "/srv"), "allowed");
    EXPECT_NE(whyNot({{"/"}, {}}, "/anything"), "allowed");
}

TEST(UserMountRules, ScratchDoesNotCoverScratch2) {
    EXPECT_EQ(whyNot({{"/scratch"}, {}}, "/scratch2"), "allowed");
    EXPECT_NE(whyNot({{"/scratch"}, {}}, "/scratch/2"), "allowed");
}

}  // namespace
}  // namespace sarus::engine::mount_rules_test
