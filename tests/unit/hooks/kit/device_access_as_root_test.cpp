#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/isolated_process.hpp"
#include "base/text.hpp"
#include "hooks/kit/device_access.hpp"

namespace sarus::hooks::device_access_as_root_test {
namespace {

/// A cgroup of the version 1 device controller which forbids everything, for one test.
class Cgroup {
public:
    Cgroup() {
        usable = ::mkdir(path.c_str(), 0755) == 0;
        if (usable) {
            write("devices.deny", "a");
        }
    }
    ~Cgroup() {
        for (const pid_t member : members) {
            ::kill(member, SIGKILL);
            ::waitpid(member, nullptr, 0);
        }
        ::rmdir(path.c_str());
    }
    void write(const std::string& file, const std::string& text) const {
        writeAll(openFile(cat(path, '/', file), O_WRONLY).get(), text, file);
    }
    /// Starts a process in the cgroup which sleeps; with a mount namespace of its own or with ours.
    pid_t start(bool ownNamespace) {
        int ready[2];
        checkErrno(::pipe(ready), "pipe");
        const pid_t child = ::fork();
        if (child == 0) {
            ::close(ready[0]);
            if (!ownNamespace || ::unshare(CLONE_NEWNS) == 0) {
                ::close(ready[1]);
                ::pause();
            }
            ::_exit(1);
        }
        ::close(ready[1]);
        char end = 0;
        (void)!::read(ready[0], &end, 1);
        ::close(ready[0]);
        members.push_back(child);
        write("cgroup.procs", cat(child));
        return child;
    }
    std::string path = cat("/sys/fs/cgroup/devices/sarus-test-", ::getpid());
    bool usable = false;

private:
    std::vector<pid_t> members;
};

TEST(DeviceCgroupAsRoot, isAmendedOnlyIfItBelongsToTheContainerAlone) {
    Cgroup cgroup;
    if (!cgroup.usable) {
        GTEST_SKIP() << "no device cgroups of version 1 on this machine";
    }
    const dev_t device = makedev(10, 229);
    const pid_t container = cgroup.start(true);
    EXPECT_EQ(grantDevice(container, 'c', device, "r"), DeviceGrant::granted);
    EXPECT_EQ(readFile(cgroup.path + "/devices.list"), "c 10:229 r\n");
    const pid_t stranger = cgroup.start(false);
    EXPECT_EQ(grantDevice(container, 'c', device, "rwm"), DeviceGrant::notOwnCgroup);
    EXPECT_EQ(readFile(cgroup.path + "/devices.list"), "c 10:229 r\n");
    EXPECT_EQ(grantDevice(stranger, 'c', device, "rwm"), DeviceGrant::notOwnCgroup);
}

TEST(DeviceCgroupAsRoot, unifiedCgroupsCannotBeAmendedWhichIsExplained) {
    test::inMountNamespace([] {
        if (::umount2("/sys/fs/cgroup/devices", MNT_DETACH) != 0 && errno != EINVAL && errno != ENOENT) {
            FAIL() << "cannot hide the hierarchy of version 1";
        }
        const auto grant = grantDevice(0, 'c', makedev(10, 229), "rw");
        EXPECT_EQ(grant, DeviceGrant::unifiedCgroups);
        EXPECT_NE(
            explainGrant(grant, "/dev/fuse").find("On cgroup version 2 a hook cannot amend the device rules"),
            std::string::npos);
    });
}

/// What a process in the cgroup says of /dev/fuse: 0 may not, 1 may, 2 cannot tell.
int answerOf(const Cgroup& cgroup, pid_t container, std::string_view access) {
    const pid_t child = ::fork();
    if (child == 0) {
        const auto fuse = cat("/tmp/sarus-test-device-", ::getpid());
        ::mknod(fuse.c_str(), S_IFCHR | 0600, makedev(10, 229));
        cgroup.write("cgroup.procs", cat(::getpid()));
        const auto answer = mayUseDevice(container, fuse, access);
        ::unlink(fuse.c_str());
        ::_exit(!answer ? 2 : *answer ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(DeviceCgroupAsRoot, whatItsRulesAllowIsKnownToItsProcessesOnly) {
    Cgroup cgroup;
    if (!cgroup.usable) {
        GTEST_SKIP() << "no device cgroups of version 1 on this machine";
    }
    const pid_t container = cgroup.start(true);
    cgroup.write("devices.allow", "c 10:229 m");
    EXPECT_EQ(answerOf(cgroup, container, "rw"), 0);
    cgroup.write("devices.allow", "c 10:229 r");
    EXPECT_EQ(answerOf(cgroup, container, "r"), 1);
    EXPECT_EQ(answerOf(cgroup, container, "rwm"), 0);
    cgroup.write("devices.allow", "c 10:229 w");
    EXPECT_EQ(answerOf(cgroup, container, "rw"), 1);
    EXPECT_EQ(answerOf(cgroup, ::getpid(), "rw"), 2);
    EXPECT_EQ(mayUseDevice(container, "/dev/null", "rw"), std::nullopt);
}

}  // namespace
}  // namespace sarus::hooks::device_access_as_root_test
