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
#include "base/text.hpp"
#include "hooks/kit/device_cgroup.hpp"

namespace sarus::hooks {
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

}  // namespace
}  // namespace sarus::hooks
