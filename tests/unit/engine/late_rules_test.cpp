#include "engine/late_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "base/error.hpp"

namespace sarus::engine::late_rules_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct stat statusOf(mode_t mode, dev_t number = 0) {
    struct stat status {};
    status.st_mode = mode;
    status.st_rdev = number;
    status.st_uid = 1;
    status.st_gid = 2;
    return status;
}

oci::DeviceNodeEdit nodeOfType(const std::string& type, std::optional<std::int64_t> major = {},
                               std::optional<std::int64_t> minor = {}) {
    return {
        .path = "/dev/gpu", .hostPath = "", .type = type, .major = major, .minor = minor, .permissions = ""};
}

const dev_t nullDevice = makedev(1, 3);
const dev_t gpuDevice = makedev(195, 0);

TEST(LateMountRules, OnlyTheAdministratorsPathsAreLookedUpAsRoot) {
    EXPECT_FALSE(isLookedUpAsUser(MountOrigin::site));
    for (const auto origin : {MountOrigin::user, MountOrigin::workloadManager, MountOrigin::cdi}) {
        EXPECT_TRUE(isLookedUpAsUser(origin));
    }
}

TEST(LateMountRules, OnlyWhatTheWorkloadManagerNamedMayBeMissing) {
    EXPECT_TRUE(mayBeMissing(MountOrigin::workloadManager));
    for (const auto origin : {MountOrigin::user, MountOrigin::site, MountOrigin::cdi}) {
        EXPECT_FALSE(mayBeMissing(origin));
    }
}

TEST(LateMountRules, MountsOfTheUserShowNoDevicesButTheUsualOnes) {
    const auto nodev = [](MountOrigin origin, const struct stat& source, bool asked = false) {
        return isNodev({.source = "/s", .destination = "/d", .origin = origin, .request = "", .nodev = asked},
                       source);
    };
    for (const auto origin : {MountOrigin::user, MountOrigin::workloadManager}) {
        EXPECT_TRUE(nodev(origin, statusOf(S_IFDIR)));
        EXPECT_TRUE(nodev(origin, statusOf(S_IFCHR, gpuDevice)));
        EXPECT_TRUE(nodev(origin, statusOf(S_IFBLK, nullDevice))) << "a block device of that number";
        EXPECT_FALSE(nodev(origin, statusOf(S_IFCHR, nullDevice)));
    }
    EXPECT_FALSE(nodev(MountOrigin::site, statusOf(S_IFDIR)));
    EXPECT_FALSE(nodev(MountOrigin::cdi, statusOf(S_IFDIR)));
    EXPECT_TRUE(nodev(MountOrigin::cdi, statusOf(S_IFCHR, nullDevice), true));
}

TEST(LateMountRules, TheRulesOfUserMountsHoldForTheResolvedPath) {
    const UserMountRules rules{{"/etc"}, {"/opt"}};
    const auto why = [&](std::string_view resolved, std::string_view destination, MountOrigin origin) {
        return whyNotMountedOn(resolved, destination, origin, rules).value_or("allowed");
    };
    constexpr std::string_view refused = "destination cannot be a subdirectory of '/etc'";
    EXPECT_EQ(why("/etc/x", "/e/x", MountOrigin::user), refused);
    EXPECT_EQ(why("/opt", "/opt", MountOrigin::user), "'/opt' is not allowed as mount destination");
    EXPECT_EQ(why("/etc/x", "/e/x", MountOrigin::site), "allowed");
    EXPECT_EQ(why("/etc/x", "/e/x", MountOrigin::cdi), "allowed");
    EXPECT_EQ(why("/etc/x", "/e/x", MountOrigin::workloadManager), refused)
        << "a link of the image leads there";
    EXPECT_EQ(why("/etc/x", "//etc/./x", MountOrigin::workloadManager), "allowed");
}

TEST(LateMountRules, NobodyMountsOnWhatIsTheEngines) {
    for (const auto origin :
         {MountOrigin::user, MountOrigin::site, MountOrigin::workloadManager, MountOrigin::cdi}) {
        EXPECT_EQ(whyNotMountedOn("/", "/x/..", origin, {}),
                  "the root directory cannot be a mount destination");
        for (const auto* path : {"/dev", "/dev/null", "/dev/pts/1", "/proc/self", "/sys"}) {
            EXPECT_TRUE(whyNotMountedOn(path, path, origin, {})) << path;
        }
        EXPECT_FALSE(whyNotMountedOn("/dev/shm", "/dev/shm", origin, {}));
    }
}

TEST(LateMountRules, WhoeverHidesAUsersMountIsNamed) {
    const auto mount = [](const char* request, MountOrigin origin) {
        return PlannedMount{request, "", false, origin, request};
    };
    const std::vector<PlannedMount> mounts{
        mount("site", MountOrigin::site),  mount("inner", MountOrigin::user),
        mount("outer", MountOrigin::user), mount("beside", MountOrigin::user),
        mount("outer", MountOrigin::user), mount("none", MountOrigin::workloadManager)};
    EXPECT_THAT(findHiddenMounts(mounts, {"/a/b", "/a/b", "/a", "/ab", "/a", ""}),
                ElementsAre("The mount request 'outer' hides 'inner', which precedes it"));
    EXPECT_THAT(findHiddenMounts(mounts, {"/a", "/a", "/a/b", "/a/c", "/a/b", ""}), IsEmpty());
    EXPECT_THAT(findHiddenMounts(mounts, {"/a", "/a", "/b", "/a", "/c", ""}),
                ElementsAre("The mount request 'beside' hides 'inner', which precedes it"));
}

TEST(LateWorkdirRules, WhatTheRuntimeMakesIsLeftToIt) {
    EXPECT_TRUE(isWorkdirOfRuntime("/sys/kernel"));
    EXPECT_TRUE(isWorkdirOfRuntime("/dev/pts"));
    for (const auto* path : {"/", "/dev", "/dev/shm", "/home"}) {
        EXPECT_FALSE(isWorkdirOfRuntime(path)) << path;
    }
    EXPECT_NO_THROW(checkResolvedWorkdir("/home"));
    EXPECT_NO_THROW(checkResolvedWorkdir("/"));
    EXPECT_THROW(checkResolvedWorkdir("/proc/1"), Error);
    EXPECT_THROW(checkResolvedWorkdir("/dev/null/x"), Error);
}

class DecideNode : public ::testing::Test {
protected:
    DeviceNode decide(const struct stat& found) const {
        return decideNode(device, {.status = &found}, owner);
    }
    DeviceNode decideMissing() const { return decideNode(device, {.error = ENOENT}, owner); }

    template <typename Decide>
    static std::string errorOf(Decide decide) {
        try {
            decide();
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    void expectTheSource(const struct stat& found) const {
        const auto node = decide(found);
        EXPECT_FALSE(node.isNew);
        EXPECT_EQ(node.mode, found.st_mode);
        EXPECT_EQ(node.number, found.st_rdev);
    }

    PlannedDevice device{.source = "/dev/gpu", .destination = "/dev/gpu", .access = "rw", .request = "R"};
    NodeOwner owner{.uid = 1000, .gid = 100, .privileged = true};
    const struct stat gpu = statusOf(S_IFCHR | 0600, gpuDevice);
};

TEST_F(DecideNode, WithoutACdiFileItIsTheSource) {
    expectTheSource(gpu);
    expectTheSource(statusOf(S_IFBLK, makedev(7, 0)));
}

TEST_F(DecideNode, WhatIsNoDeviceIsRefused) {
    for (const auto mode : {S_IFREG, S_IFDIR, S_IFIFO, S_IFSOCK}) {
        EXPECT_EQ(errorOf([&] { decide(statusOf(static_cast<mode_t>(mode))); }),
                  "Source path \"/dev/gpu\" is not a device file");
    }
    EXPECT_EQ(
        errorOf([&] { decideMissing(); }),
        "Failed to check if file \"/dev/gpu\" is a device file. Stat failed: No such file or directory");
}

TEST_F(DecideNode, ACdiFileThatAsksForWhatIsThereGetsTheSource) {
    device.node = nodeOfType("c", 195, 0);
    device.node->fileMode = 0600;
    device.node->uid = 1;
    device.node->gid = 2;
    expectTheSource(gpu);
    device.node = nodeOfType("");
    expectTheSource(gpu);
}

TEST_F(DecideNode, AnotherOwnerOrModeNeedsACopyOfTheHostsOwnNode) {
    device.node = nodeOfType("");
    device.node->fileMode = 0660;
    device.node->gid = 44;
    const auto node = decide(gpu);
    EXPECT_TRUE(node.isNew);
    EXPECT_TRUE(node.mustBeHosts);
    EXPECT_EQ(node.mode, S_IFCHR | 0660U);
    EXPECT_EQ(node.number, gpuDevice);
    EXPECT_EQ(node.uid, 1U);
    EXPECT_EQ(node.gid, 44U);
}

TEST_F(DecideNode, NumbersOfTheFileNeedNoNodeOfTheHost) {
    device.node = nodeOfType("b", 9, 8);
    const auto node = decideMissing();
    EXPECT_TRUE(node.isNew);
    EXPECT_FALSE(node.mustBeHosts);
    EXPECT_EQ(node.mode, S_IFBLK | 0666U);
    EXPECT_EQ(node.number, makedev(9, 8));
    EXPECT_EQ(node.uid, 0U);
    device.node->type = "c";
    EXPECT_EQ(decide(gpu).number, makedev(9, 8));
    EXPECT_FALSE(decide(gpu).mustBeHosts);
}

TEST_F(DecideNode, TheTypeOfTheFileMustBeThatOfTheNode) {
    device.node = nodeOfType("b");
    EXPECT_EQ(errorOf([&] { decide(gpu); }), "\"/dev/gpu\" is not a device of type 'b'");
    device.node->type = "u";  // a character device without buffer
    expectTheSource(gpu);
}

TEST_F(DecideNode, WithoutPrivilegesOnlyNumbersCount) {
    owner.privileged = false;
    device.node = nodeOfType("c", 195, 0);
    device.node->fileMode = 0666;
    device.node->uid = 0;
    expectTheSource(gpu);
    EXPECT_NE(errorOf([&] { decideMissing(); }), "no error");
    device.node->minor = 1;
    EXPECT_EQ(errorOf([&] { decide(gpu); }), "the numbers of \"/dev/gpu\" are not those of its CDI file");
}

TEST_F(DecideNode, AFifoIsAlwaysNew) {
    device.node = nodeOfType("p");
    device.node->fileMode = 0640;
    device.node->uid = 7;
    auto node = decideMissing();
    EXPECT_TRUE(node.isNew);
    EXPECT_EQ(node.mode, S_IFIFO | 0640U);
    EXPECT_EQ(node.number, 0U);
    EXPECT_EQ(node.uid, 7U);
    EXPECT_EQ(node.gid, 100U);
    owner.privileged = false;
    node = decide(statusOf(S_IFIFO));
    EXPECT_TRUE(node.isNew);
    EXPECT_EQ(node.uid, 1000U) << "nobody else's file can be made";
}

}  // namespace
}  // namespace sarus::engine::late_rules_test
