#include "starter/runtime/stream_owners.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>

namespace sarus::starter {

namespace {

#if defined(__x86_64__)
constexpr unsigned int architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned int architecture = AUDIT_ARCH_AARCH64;
#elif defined(__powerpc64__)
constexpr unsigned int architecture =
    std::endian::native == std::endian::little ? AUDIT_ARCH_PPC64LE : AUDIT_ARCH_PPC64;
#elif defined(__riscv) && __riscv_xlen == 64
constexpr unsigned int architecture = AUDIT_ARCH_RISCV64;
#elif defined(__s390x__)
constexpr unsigned int architecture = AUDIT_ARCH_S390X;
#else
#error "Add the architecture's AUDIT_ARCH constant (linux/audit.h)"
#endif

/// Offset of the 32 bits of an argument that the kernel uses.
constexpr unsigned int argument(unsigned int number) {
    constexpr auto arguments = static_cast<unsigned int>(offsetof(seccomp_data, args));
    return arguments + 8U * number + (std::endian::native == std::endian::little ? 0U : 4U);
}

constexpr sock_filter load(unsigned int offset) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}

constexpr sock_filter jump(unsigned int condition, unsigned int value, unsigned char ifTrue,
                           unsigned char ifFalse) {
    return BPF_JUMP(BPF_JMP | condition | BPF_K, value, ifTrue, ifFalse);
}

constexpr sock_filter finish(unsigned int action) {
    return BPF_STMT(BPF_RET | BPF_K, action);
}

constexpr unsigned int lastStream = 2;

}  // namespace

bool streamsAreOwnPipes(uid_t uid, gid_t gid) noexcept {
    for (unsigned int stream = 0; stream <= lastStream; ++stream) {
        const int fd = static_cast<int>(stream);
        struct stat status {};
        struct statfs filesystem {};
        if (::fstat(fd, &status) != 0 || ::fstatfs(fd, &filesystem) != 0 ||
            filesystem.f_type != PIPEFS_MAGIC || status.st_uid != uid || status.st_gid != gid) {
            return false;
        }
    }
    return true;
}

int keepStreamOwners() noexcept {
    // Other calls depend only on their number. The kernel caches that decision, so it runs no filter for
    // them.
    std::array<sock_filter, 11> instructions{
        load(offsetof(seccomp_data, arch)),
        jump(BPF_JEQ, architecture, 0, 7),
        load(offsetof(seccomp_data, nr)),
        jump(BPF_JEQ, SYS_fchown, 3, 0),
        jump(BPF_JEQ, SYS_fchownat, 0, 4),
        load(argument(4)),  // a descriptor alone, or a name below the directory that it refers to
        jump(BPF_JSET, AT_EMPTY_PATH, 0, 2),
        load(argument(0)),
        jump(BPF_JGT, lastStream, 0, 1),
        finish(SECCOMP_RET_ALLOW),
        finish(SECCOMP_RET_ERRNO),  // errno 0: success
    };
    const sock_fprog program{.len = instructions.size(), .filter = instructions.data()};
    // Without SPEC_ALLOW, older kernels would slow down the container's programs with speculation
    // mitigations.
    for (const unsigned long flags : {SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0UL}) {
        if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0) {
            return 0;
        }
        if (errno != EINVAL) {
            break;
        }
    }
    return errno;
}

}  // namespace sarus::starter
