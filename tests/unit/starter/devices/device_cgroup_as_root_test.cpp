#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/isolated_process.hpp"
#include "base/text.hpp"
#include "node/cgroups.hpp"
#include "starter/devices/device_cgroup.hpp"
#include "starter/devices/runtime_cgroups.hpp"

namespace sarus::starter::device_cgroup_as_root_test {
namespace {

std::optional<std::string> ownDirectory() {
    const auto own = node::findCgroup(readFile("/proc/self/cgroup"), "devices");
    return own ? node::findCgroupDirectory(readMountTable(), "devices", *own) : std::nullopt;
}

class DeviceCgroupTest : public testing::Test {
protected:
    void SetUp() override {
        if (!ownDirectory()) {
            GTEST_SKIP() << "this machine has no device cgroup of version 1";
        }
        name = std::to_string(::getpid()) + "-test";
        leaf = *ownDirectory() + "/sarus-" + name;
    }

    static DeviceCgroup create(const std::string& name,
                               const std::vector<oci::RuntimeDeviceRule>& rules = {}) {
        return DeviceCgroup::create(OwnCgroup::open().value(), name, rules);
    }

    /// 'y' where a process in the leaf can open the device, 'n' where the cgroup forbids it.
    static char canOpen(const DeviceCgroup& cgroup, const char* device, int flags) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            const bool entered = ::write(cgroup.processes(), "0", 1) == 1;
            ::_exit(!entered ? 2 : ::open(device, flags | O_CLOEXEC) >= 0 ? 0 : errno == EPERM ? 1 : 3);
        }
        int status = 0;
        ::waitpid(pid, &status, 0);
        return status == 0 ? 'y' : WEXITSTATUS(status) == 1 ? 'n' : '?';
    }

    std::string name;
    std::string leaf;
};

TEST_F(DeviceCgroupTest, AllowsTheUsualDevicesAndThoseAskedForAlone) {
    const auto cgroup = create(name, {{.allow = true, .type = 'c', .major = 1, .minor = 11, .access = "r"}});
    EXPECT_EQ(canOpen(cgroup, "/dev/null", O_RDWR), 'y');
    EXPECT_EQ(canOpen(cgroup, "/dev/kmsg", O_RDONLY), 'y');
    EXPECT_EQ(canOpen(cgroup, "/dev/kmsg", O_WRONLY), 'n');
    EXPECT_EQ(canOpen(cgroup, "/dev/loop-control", O_RDWR), 'n');
}

TEST_F(DeviceCgroupTest, IsRemovedWithTheObject) {
    {
        const auto cgroup = create(name);
        EXPECT_TRUE(isDirectory(leaf));
    }
    EXPECT_FALSE(isDirectory(leaf));
}

TEST_F(DeviceCgroupTest, LeftoversOfADeadStarterAreSweptAndThoseInUseAreNot) {
    const auto dead = leaf + "-dead";
    createDirectories(dead);
    const auto alive = create(name + "-alive");
    EXPECT_FALSE(isDirectory(dead));
    const auto second = create(name);
    EXPECT_TRUE(isDirectory(leaf + "-alive"));
}

TEST_F(DeviceCgroupTest, CgroupsOfAJobWhichIsCalledAfterTheProgramAreLeftAlone) {
    for (const auto& job :
         {cat(*ownDirectory(), "/sarus-job-", ::getpid()), cat(*ownDirectory(), "/sarus-", ::getpid())}) {
        createDirectories(job);
        create(name);
        EXPECT_EQ(::rmdir(job.c_str()), 0) << job;
    }
}

TEST_F(DeviceCgroupTest, StartsAtOnceDoNotTakeEachOthersLeaves) {
    const auto rounds = [&](const char* suffix) {
        for (int round = 0; round < 300; ++round) {
            create(name + suffix);
        }
    };
    auto other = std::async(std::launch::async, [&] { rounds("-b"); });
    EXPECT_NO_THROW(rounds("-a"));
    EXPECT_NO_THROW(other.get());
}

TEST_F(DeviceCgroupTest, ANameInUseIsAnError) {
    const auto first = create(name);
    EXPECT_THROW(create(name), Error);
    EXPECT_TRUE(isDirectory(leaf));
}

TEST(HybridCgroups, AnErrorOfHidingTheTreeNamesTheCure) {
    test::inChild([] {
        test::failSystemCalls({SYS_mount}, EPERM);
        try {
            hideUnifiedHierarchy();
            FAIL() << "hidden";
        } catch (const Error& error) {
            EXPECT_STREQ(error.what(),
                         "Failed to hide /sys/fs/cgroup/unified from crun, which may not start beside it: "
                         "Operation not permitted");
            EXPECT_EQ(error.hint(), "Set `runcPath` in sarus.json to runc");
        }
    });
}

}  // namespace
}  // namespace sarus::starter::device_cgroup_as_root_test
