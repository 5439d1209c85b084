#include "squashfs/server/confinement.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace sarus::squashfs::confinement_test {
namespace {

using Attack = std::function<long()>;

constexpr int wentOn = 1000;

/// How a confined process ends that does this: the signal, or wentOn and the errno.
int endAfter(const Attack& attack, bool mayUnmount = false) {
    const pid_t child = ::fork();
    if (child == 0) {
        confine(mayUnmount);
        const long result = attack();
        ::_exit(result < 0 ? errno : 0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : wentOn + WEXITSTATUS(status);
}

class Confinement : public testing::Test {
protected:
    const pid_t other = ::getpid();
    void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

TEST_F(Confinement, LetsMemoryBeManaged) {
    EXPECT_EQ(endAfter([] {
                  void* const more =
                      ::mmap(nullptr, 1U << 20U, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                  return more == MAP_FAILED ? -1L : ::mprotect(more, 4096, PROT_READ);
              }),
              wentOn);
}

TEST_F(Confinement, LetsNoFileBeOpened) {
    EXPECT_EQ(endAfter([] { return ::open("/etc/passwd", O_RDONLY); }), wentOn + EACCES);
}

TEST_F(Confinement, EndsAProcessThatDoesAnythingElse) {
    const std::vector<std::pair<const char*, Attack>> attacks{
        {"signal to a thread of another process",
         [&] { return ::syscall(SYS_tgkill, other, other, SIGCONT); }},
        {"signal to another process", [&] { return ::kill(other, SIGCONT); }},
        {"executable memory",
         [] {
             return ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                            MAP_FAILED
                        ? -1L
                        : 0;
         }},
        {"memory that becomes executable", [&] { return ::mprotect(memory, 4096, PROT_READ | PROT_EXEC); }},
        {"memory that becomes executable, with a key",
         [&] { return ::syscall(SYS_pkey_mprotect, memory, 4096, PROT_EXEC, -1); }},
        {"unmount", [] { return ::umount2("/nowhere", MNT_DETACH); }},
        {"process", [] { return ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }},
        {"program",
         [] {
             char* const none[] = {nullptr};
             return ::execve("/bin/true", none, none);
         }},
        {"limits", [] { return ::syscall(SYS_prlimit64, 0, 7, nullptr, nullptr); }},
    };
    for (const auto& [name, attack] : attacks) {
        EXPECT_EQ(endAfter(attack), SIGSYS) << name;
    }
}

TEST_F(Confinement, LetsTheServerThatHasMountedDetachAlone) {
    EXPECT_GE(endAfter([] { return ::umount2("/nowhere", MNT_DETACH); }, true), wentOn);
    for (const int flags : {0, int{MNT_FORCE}, MNT_DETACH | MNT_FORCE}) {
        EXPECT_EQ(endAfter([flags] { return ::umount2("/nowhere", flags); }, true), SIGSYS) << flags;
    }
}

}  // namespace
}  // namespace sarus::squashfs::confinement_test
