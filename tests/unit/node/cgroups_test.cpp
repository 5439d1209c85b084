#include "node/cgroups.hpp"

#include <gtest/gtest.h>

namespace sarus::node::cgroups_test {
namespace {

constexpr const char* hybridCgroups =
    "9:name=systemd:/\n5:devices:/slurm/uid_1000/job_7/step_0\n2:cpu,cpuacct:/slurm\n0::/user.slice/a:b\n";

TEST(OwnCgroup, IsFoundByController) {
    EXPECT_EQ(findCgroup(hybridCgroups, "devices"), "/slurm/uid_1000/job_7/step_0");
    EXPECT_EQ(findCgroup(hybridCgroups, "cpuacct"), "/slurm");
    EXPECT_EQ(findCgroup(hybridCgroups, "memory"), std::nullopt);
    EXPECT_EQ(findCgroup(hybridCgroups, "device"), std::nullopt);
}

TEST(OwnCgroup, OfTheUnifiedHierarchyHasNoController) {
    EXPECT_EQ(findCgroup(hybridCgroups, ""), "/user.slice/a:b");
    EXPECT_EQ(findCgroup("5:devices:/x\n", ""), std::nullopt);
}

constexpr const char* mountInfo =
    "25 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "26 25 0:23 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory\n"
    "27 25 0:24 / /sys/fs/cgroup/devices rw,relatime shared:6 master:1 - cgroup cgroup rw,devices\n"
    "28 25 0:25 /job /mnt/a\\040b rw - cgroup cgroup rw,freezer\n";

TEST(CgroupDirectory, IsTheMountPointAndThePath) {
    EXPECT_EQ(findCgroupDirectory(parseMountTable(mountInfo), "devices", "/"), "/sys/fs/cgroup/devices");
    EXPECT_EQ(findCgroupDirectory(parseMountTable(mountInfo), "devices", "/job/step"),
              "/sys/fs/cgroup/devices/job/step");
    EXPECT_EQ(findCgroupDirectory(parseMountTable(mountInfo), "pids", "/"), std::nullopt);
}

TEST(CgroupDirectory, OfVersionTwoHasNoController) {
    constexpr std::string_view unified =
        "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    EXPECT_EQ(findCgroupDirectory(parseMountTable(unified), "", "/job/step"), "/sys/fs/cgroup/job/step");
    EXPECT_EQ(findCgroupDirectory(parseMountTable(unified), "devices", "/"), std::nullopt);
}

TEST(CgroupDirectory, IsThatOfTheMountOnTop) {
    constexpr std::string_view covered =
        "30 20 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n31 20 0:26 / /sys/fs/cgroup rw - "
        "cgroup2 cgroup2 rw\n";
    EXPECT_EQ(findCgroupDirectory(parseMountTable(covered), "", "/job"), "/sys/fs/cgroup/job");
}

TEST(CgroupDirectory, OfAPartlyMountedHierarchyIsRelativeToItsRoot) {
    EXPECT_EQ(findCgroupDirectory(parseMountTable(mountInfo), "freezer", "/job"), "/mnt/a b");
    EXPECT_EQ(findCgroupDirectory(parseMountTable(mountInfo), "freezer", "/job/step"), "/mnt/a b/step");
    EXPECT_EQ(findCgroupDirectory(parseMountTable(mountInfo), "freezer", "/jobs"), std::nullopt);
    EXPECT_EQ(findCgroupDirectory(parseMountTable(mountInfo), "freezer", "/"), std::nullopt);
}

TEST(CgroupDirectory, IsNoDirectoryWithTheNameOfAMount) {
    // "/dev/shm/x\v/sys/fs/cgroup/devices\v-\vcgroup\vx\vdevices", bound on a destination of the user's
    // choice
    constexpr std::string_view named =
        "40 25 0:30 /x\v/sys/fs/cgroup/devices\v-\vcgroup\vx\vdevices /opt rw shared:7 - tmpfs tmpfs rw\n";
    EXPECT_EQ(findCgroupDirectory(parseMountTable(named), "devices", "/"), std::nullopt);
    EXPECT_EQ(findCgroupDirectory(parseMountTable(std::string(mountInfo).append(named)), "devices", "/job"),
              "/sys/fs/cgroup/devices/job");
}

}  // namespace
}  // namespace sarus::node::cgroups_test
