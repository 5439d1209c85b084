#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "node/cgroups.hpp"
#include "starter/devices/device_program.hpp"

namespace sarus::starter::device_program_as_root_test {
namespace {

/// A cgroup of version 2 with the program. The tests mount that version themselves: some nodes use the other
/// one alone.
class DeviceProgram : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(::mount("cgroup2", mountPoint.path().c_str(), "cgroup2", 0, nullptr), 0);
        path = cat(mountPoint.path(), node::findCgroup(readFile("/proc/self/cgroup"), "").value_or("/"),
                   "/sarus-unit-", ::getpid());
        ASSERT_EQ(::mkdir(path.c_str(), 0755), 0);
        cgroup = openFile(path, O_RDONLY | O_DIRECTORY);
    }
    void TearDown() override {
        ::rmdir(path.c_str());
        ::umount2(mountPoint.path().c_str(), MNT_DETACH);
    }

    /// 'y' where a process in the cgroup can open the device, 'n' where the program forbids it.
    char canOpen(const char* device, int flags) const {
        return attempt([&] { return ::open(device, flags | O_CLOEXEC) >= 0; });
    }

    char canMakeNode(mode_t type, dev_t device) const {
        return attempt([&] {
            const std::string node = cat("/tmp/sarus-node-", ::getpid());
            const bool made = ::mknod(node.c_str(), type | 0600, device) == 0;
            const int error = errno;
            ::unlink(node.c_str());
            errno = error;
            return made;
        });
    }

    template <typename Action>
    char attempt(Action action) const {
        const pid_t pid = ::fork();
        if (pid == 0) {
            const auto procs = openFileAt(cgroup.get(), "cgroup.procs", O_WRONLY);
            const bool entered = ::write(procs.get(), "0", 1) == 1;
            ::_exit(!entered ? 2 : action() ? 0 : errno == EPERM ? 1 : 3);
        }
        int status = 0;
        ::waitpid(pid, &status, 0);
        return status == 0 ? 'y' : WEXITSTATUS(status) == 1 ? 'n' : '?';
    }

    test::TemporaryDirectory mountPoint;
    std::string path;
    UniqueFd cgroup;
};

TEST_F(DeviceProgram, WithoutPatternsNothingIsAllowed) {
    EXPECT_EQ(canOpen("/dev/null", O_RDONLY), 'y');
    attachDeviceProgram(cgroup.get(), {});
    EXPECT_EQ(canOpen("/dev/null", O_RDONLY), 'n');
}

TEST_F(DeviceProgram, ComparesTypeAndNumbers) {
    attachDeviceProgram(cgroup.get(), {{.type = 'c', .major = 1, .minor = 5, .access = "rwm"},
                                       {.type = 'b', .major = 1, .minor = 3, .access = "rwm"}});
    EXPECT_EQ(canOpen("/dev/zero", O_RDWR), 'y');
    EXPECT_EQ(canOpen("/dev/null", O_RDWR), 'n');
    EXPECT_EQ(canOpen("/dev/loop-control", O_RDWR), 'n');
}

TEST_F(DeviceProgram, EveryLetterOfTheAccessCounts) {
    attachDeviceProgram(cgroup.get(), {{.type = 'c', .major = 1, .minor = 3, .access = "r"},
                                       {.type = 'c', .major = 1, .minor = 5, .access = "w"}});
    EXPECT_EQ(canOpen("/dev/null", O_RDONLY), 'y');
    EXPECT_EQ(canOpen("/dev/null", O_WRONLY), 'n');
    EXPECT_EQ(canOpen("/dev/null", O_RDWR), 'n');
    EXPECT_EQ(canOpen("/dev/zero", O_WRONLY), 'y');
    EXPECT_EQ(canOpen("/dev/zero", O_RDONLY), 'n');
}

TEST_F(DeviceProgram, MissingNumbersMeanAll) {
    attachDeviceProgram(cgroup.get(),
                        {{.type = 'c', .access = "m"}, {.type = 'c', .major = 1, .access = "r"}});
    EXPECT_EQ(canOpen("/dev/zero", O_RDONLY), 'y');
    EXPECT_EQ(canOpen("/dev/null", O_RDONLY), 'y');
    EXPECT_EQ(canOpen("/dev/null", O_WRONLY), 'n');
    EXPECT_EQ(canOpen("/dev/loop-control", O_RDONLY), 'n');
    EXPECT_EQ(canMakeNode(S_IFCHR, 0x0a01), 'y');
    EXPECT_EQ(canMakeNode(S_IFBLK, 0x0701), 'n');
}

TEST_F(DeviceProgram, WhatACgroupAboveForbidsStaysForbidden) {
    attachDeviceProgram(cgroup.get(), {{.type = 'c', .major = 1, .minor = 5, .access = "rwm"}});
    const std::string below = path + "/below";
    ASSERT_EQ(::mkdir(below.c_str(), 0755), 0);
    cgroup = openFile(below, O_RDONLY | O_DIRECTORY);
    attachDeviceProgram(cgroup.get(), {{.type = 'c', .major = 1, .access = "r"}});
    EXPECT_EQ(canOpen("/dev/zero", O_RDONLY), 'y');
    EXPECT_EQ(canOpen("/dev/zero", O_WRONLY), 'n');
    EXPECT_EQ(canOpen("/dev/null", O_RDONLY), 'n');
    ASSERT_EQ(::rmdir(below.c_str()), 0);
}

}  // namespace
}  // namespace sarus::starter::device_program_as_root_test
