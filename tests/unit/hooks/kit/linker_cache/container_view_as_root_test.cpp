#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <thread>

#include "base/capabilities.hpp"
#include "base/isolated_process.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/linker_cache/library_directories.hpp"
#include "hooks/kit/root_fixture.hpp"

namespace sarus::hooks::container_view_as_root_test {
namespace {

constexpr uid_t user = 61234;
constexpr gid_t userGroup = 61235;
constexpr gid_t other = 61236;

container_root::ContainerUser someUser() {
    return {.uid = user, .gid = userGroup, .groups = {other}};
}

uid_t fileSystemUser() {
    return static_cast<uid_t>(::syscall(SYS_setfsuid, static_cast<uid_t>(-1)));
}

bool canRead(const std::string& path) {
    return static_cast<bool>(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
}

void protect(const std::string& path, mode_t mode, gid_t group = 0) {
    checkErrno(::chown(path.c_str(), 0, group), "chown");
    checkErrno(::chmod(path.c_str(), mode), "chmod");
}

TEST(ContainerViewAsRoot, hasTheRightsOfTheUserAndNoOthers) {
    const test::Root root;
    protect(root.path(), 0755);
    root.write("secret", "x");
    protect(root / "secret", 0600);
    root.write("shared", "x");
    protect(root / "shared", 0640, other);
    test::inChild([&] {
        const container_root::ContainerViewer viewer(someUser());
        bool good = canRead(root / "secret");
        {
            const container_root::ContainerView view;
            const container_root::ContainerView again;
            good = good && !canRead(root / "secret") && canRead(root / "shared") && ::getuid() == 0 &&
                   ::geteuid() == user && getCapabilities().effective == 0;
        }
        EXPECT_TRUE(good && canRead(root / "secret") && fileSystemUser() == 0 && ::geteuid() == 0 &&
                    getCapabilities().effective != 0);
    });
}

TEST(ContainerViewAsRoot, reachesNeitherTheKernelsSettingsNorOtherProcesses) {
    test::inChild([] {
        const Child process(checkErrno(::fork(), "fork"));
        if (process.pid() == 0) {
            ::pause();
        }
        const auto rootOfProcess = cat("/proc/", process.pid(), "/root/");
        const auto canWrite = [](const char* path) {
            return static_cast<bool>(UniqueFd(::open(path, O_WRONLY | O_CLOEXEC)));
        };
        constexpr const char* setting = "/proc/sys/fs/lease-break-time";
        const container_root::ContainerViewer viewer(someUser());
        bool good = canRead(rootOfProcess) && canWrite(setting);
        {
            const container_root::ContainerView view;
            good = good && !canRead(rootOfProcess) && !canWrite(setting);
        }
        EXPECT_TRUE(good && canRead(rootOfProcess) && canWrite(setting));
    });
}

TEST(ContainerViewAsRoot, changesOnlyItsThreadAndThoseThatItStarts) {
    test::inChild([] {
        const container_root::ContainerViewer viewer(someUser());
        uid_t outside = user;
        uid_t inside = 0;
        std::jthread waiting([&](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                ::usleep(1000);
            }
            outside = fileSystemUser();
        });
        const container_root::ContainerView view;
        waiting.request_stop();
        waiting.join();
        std::jthread([&] { inside = fileSystemUser(); }).join();
        EXPECT_TRUE(outside == 0 && inside == user);
    });
}

TEST(ContainerViewAsRoot, leavesTheParentDeathSignalAsItIs) {
    test::inChild([] {
        const container_root::ContainerViewer viewer(someUser());
        ::prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
        int inside = 0;
        int outside = 0;
        {
            const container_root::ContainerView view;
            ::prctl(PR_GET_PDEATHSIG, &inside, 0, 0, 0);
        }
        ::prctl(PR_GET_PDEATHSIG, &outside, 0, 0, 0);
        EXPECT_TRUE(inside == SIGUSR1 && outside == SIGUSR1);
    });
}

TEST(ContainerViewAsRoot, ofRootChangesNothing) {
    const test::Root root;
    root.write("secret", "x");
    protect(root / "secret", 0600);
    test::inChild([&] {
        const container_root::ContainerViewer viewer({.uid = 0, .gid = 0, .groups = {}});
        const container_root::ContainerView view;
        EXPECT_TRUE(canRead(root / "secret"));
    });
}

TEST(RootFilesAsRoot, areReadAsTheContainersUser) {
    const test::Root root;
    protect(root.path(), 0755);
    root.write("mnt/token", "/of-another-user\n");
    protect(root / "mnt/token", 0600);
    root.link("etc/ld.so.conf", "/mnt/token");
    root.link("etc/ld-musl-x86_64.path", "/mnt/token");
    EXPECT_EQ(configuredLibraryDirectories(root.fd()), std::vector<std::string>{"/of-another-user"});
    test::inChild([&] {
        const container_root::ContainerViewer viewer(someUser());
        const auto musl = muslLibraryDirectories(root.fd(), "x86_64");
        EXPECT_TRUE(configuredLibraryDirectories(root.fd()).empty());
        EXPECT_EQ(musl, (std::vector<std::string>{"/lib", "/usr/local/lib", "/usr/lib"}));
    });
}

TEST(RootFilesAsRoot, areNeverTheKernelsNorDevices) {
    const test::Root root;
    createDirectories(root / "proc");
    root.write("version", "");
    checkErrno(::mknod((root / "device").c_str(), S_IFCHR | 0600, makedev(1, 5)), "mknod");
    test::inMountNamespace([&] {
        checkErrno(::mount("/proc", (root / "proc").c_str(), nullptr, MS_BIND, nullptr), "mount");
        checkErrno(::mount("/proc/version", (root / "version").c_str(), nullptr, MS_BIND, nullptr), "mount");
        const auto inside = openFile(root.path(), O_PATH | O_DIRECTORY);
        struct stat status {};
        bool good = true;
        for (const auto* path : {"proc/version", "version", "device", "proc/sys/kernel/ostype"}) {
            good = good && !container_root::tryOpenFileInRoot(inside.get(), path) &&
                   !container_root::tryOpenFileAt(inside.get(), path, status);
        }
        EXPECT_TRUE(good && !container_root::tryOpenDirectoryInRoot(inside.get(), "proc/sys") &&
                    container_root::tryFindInRoot(inside.get(), "proc/version"));
    });
}

}  // namespace
}  // namespace sarus::hooks::container_view_as_root_test
