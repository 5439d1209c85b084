#include "squashfs/server/confinement.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::squashfs {

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t ownArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t ownArchitecture = AUDIT_ARCH_AARCH64;
#elif defined(__powerpc64__)
constexpr std::uint32_t ownArchitecture = AUDIT_ARCH_PPC64LE;
#else
#error "add the AUDIT_ARCH_ constant of this architecture"
#endif

// What the C++ library, malloc and the server's loop use; a test reads every kind of file under it.
constexpr std::array allowed{
    __NR_read,          __NR_pread64,      __NR_write,           __NR_writev,
    __NR_futex,         __NR_brk,          __NR_munmap,          __NR_mremap,
    __NR_madvise,       __NR_rt_sigreturn, __NR_rt_sigprocmask,  __NR_sched_yield,
    __NR_clock_gettime, __NR_getpid,       __NR_gettid,          __NR_exit,
    __NR_exit_group,    __NR_getrandom,    __NR_restart_syscall, __NR_rt_sigtimedwait,
    __NR_close,         __NR_fadvise64,
};

/// Sanitizers need terabytes of address space, pipes and further system calls.
#ifdef SARUS_SANITIZED
constexpr bool isSanitized = true;
#else
constexpr bool isSanitized = false;
#endif

constexpr sock_filter load(std::size_t offset) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}

constexpr sock_filter allow() {
    return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
}

constexpr sock_filter end() {
    return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
}

/// Allows the system call if the bits `mask` of its argument, counted from 0, are `wanted`. All architectures
/// of this list are little-endian, and the upper half of such an argument has no meaning.
void allowIf(std::vector<sock_filter>& program, long number, std::size_t argument, std::uint32_t mask,
             std::uint32_t wanted) {
    constexpr std::uint8_t rest = 5;
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, rest));
    program.push_back(load(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t)));
    program.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wanted, 0, 1));
    program.push_back(allow());
    program.push_back(end());
}

}  // namespace

void confine(bool mayUnmount) {
    std::vector<sock_filter> program{
        load(offsetof(seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ownArchitecture, 1, 0),
        end(),
        load(offsetof(seccomp_data, nr)),
    };
    const auto add = [&](long number) {
        program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1));
        program.push_back(allow());
    };
    for (const auto number : allowed) {
        add(number);
    }
    for (const auto number : {__NR_mmap, __NR_mprotect}) {
        allowIf(program, number, 2, PROT_EXEC, 0);
    }
    if (mayUnmount) {
        allowIf(program, __NR_umount2, 1, ~0U, MNT_DETACH);
    }
    // The C library's malloc looks into /proc/sys and goes on without.
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES));
    program.push_back(end());
    sock_fprog filter{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
    checkErrno(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "Failed to give up privileges");
    if (isSanitized) {
        return;
    }
    checkErrno(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter),
               "Failed to install the system call filter");
}

void limitResources(std::size_t addressSpace) {
    const auto pages = parseNumber(splitWords(readFile("/proc/self/statm")).front()).value_or(0);
    const auto most =
        static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + addressSpace;
    const auto lower = [](auto resource, rlim_t limit) {
        rlimit now{};
        checkErrno(::getrlimit(resource, &now), "Failed to read a limit");
        now.rlim_cur = now.rlim_max = limit < now.rlim_max ? limit : now.rlim_max;
        checkErrno(::setrlimit(resource, &now), "Failed to set a limit");
    };
    lower(RLIMIT_CORE, 0);
    if (!isSanitized) {
        lower(RLIMIT_AS, most);
        lower(RLIMIT_NOFILE, 0);
    }
}

}  // namespace sarus::squashfs
