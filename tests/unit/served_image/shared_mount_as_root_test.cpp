#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/isolated_process.hpp"
#include "base/mounts.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "served_image/shared_mount.hpp"

namespace sarus::served_image::shared_mount_as_root_test {
namespace {

using namespace sarus::test;

TEST(SharedMount, IsCopiedOutOfAnotherNamespaceAndNothingElseChanges) {
    inMountNamespace([] {
        ASSERT_EQ(::chdir("/tmp"), 0);
        auto [in, out] = makePipe();
        const pid_t pid = ::fork();
        ASSERT_GE(pid, 0);
        if (pid == 0) {
            ::unshare(CLONE_NEWNS);
            mountFilesystem("tmpfs", "/mnt", "tmpfs", 0);
            replaceFile("/mnt/hello", "world", 0644);
            [[maybe_unused]] const auto written = ::write(out.get(), "", 1);
            ::pause();
            ::_exit(0);
        }
        const Child other(pid);
        char byte = 1;
        ASSERT_EQ(::read(in.get(), &byte, 1), 1);
        const auto theirs = openFile(cat("/proc/", pid, "/ns/mnt"), O_RDONLY);
        const auto mount = openFile(cat("/proc/", pid, "/root/mnt"), O_PATH | O_DIRECTORY);
        const auto copy = copyMount(theirs.get(), mount.get());
        EXPECT_EQ(workingDirectory(), "/tmp");
        EXPECT_FALSE(pathExists("/mnt/hello"));
        attachMount(copy.get(), openFile("/mnt", O_PATH | O_DIRECTORY).get(), {.readonly = true});
        EXPECT_EQ(readFile("/mnt/hello"), "world");
        const auto file = openFile("/dev/null", O_RDONLY);
        EXPECT_THROW(copyMount(file.get(), mount.get()), Error);
    });
}

TEST(SharedMount, AServerThatHasEndedOrIsStoppedCannotAnswer) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
        ::pause();
        ::_exit(0);
    }
    const Process process(pid);
    EXPECT_TRUE(canAnswer(process));
    ::kill(pid, SIGSTOP);
    ASSERT_EQ(::waitpid(pid, nullptr, WUNTRACED), pid);
    EXPECT_FALSE(canAnswer(process));
    ::kill(pid, SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
    EXPECT_FALSE(canAnswer(process));
    ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
    EXPECT_FALSE(canAnswer(process));
}

TEST(SharedMount, AnyLimitOfProcessorTimeCounts) {
    inChild([] {
        const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
        ASSERT_EQ(::setrlimit(RLIMIT_CPU, &none), 0);
        EXPECT_FALSE(hasTimeLimit());
        const rlimit limit{100, 100};
        ASSERT_EQ(::setrlimit(RLIMIT_CPU, &limit), 0);
        EXPECT_TRUE(hasTimeLimit());
    });
}

}  // namespace
}  // namespace sarus::served_image::shared_mount_as_root_test
