#include "starter/enter/root_emulation.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr size_t sizeOfArgument = 8;  // the low half comes first: all these processors are little-endian

/// chown, lchown, fchown and fchownat; setuid, setgid, setreuid, setregid, setresuid, setresgid, setfsuid and
/// setfsgid; setgroups; capset.
#if defined(__x86_64__)
constexpr uint32_t nativeProcessor = AUDIT_ARCH_X86_64;
constexpr uint32_t nativeCalls[] = {SYS_chown,    SYS_lchown,   SYS_fchown,    SYS_fchownat,  SYS_setuid,
                                    SYS_setgid,   SYS_setreuid, SYS_setregid,  SYS_setresuid, SYS_setresgid,
                                    SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capset};
constexpr uint32_t nativeMknod = SYS_mknod;
constexpr uint32_t otherProcessor = AUDIT_ARCH_I386;
/// Also with ids of 16 bits.
constexpr uint32_t otherCalls[] = {182, 16,  95, 212, 198, 207, 298, 23,  46,  70,  71,  164, 170,
                                   138, 139, 81, 213, 214, 203, 204, 208, 210, 215, 216, 206, 185};
constexpr uint32_t otherMknod = 14;
constexpr uint32_t otherMknodat = 297;
#elif defined(__aarch64__)
constexpr uint32_t nativeProcessor = AUDIT_ARCH_AARCH64;
constexpr uint32_t nativeCalls[] = {SYS_fchown,   SYS_fchownat, SYS_setuid,    SYS_setgid,
                                    SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid,
                                    SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capset};
constexpr uint32_t nativeMknod = ~0U;  // there is only mknodat
constexpr uint32_t otherProcessor = AUDIT_ARCH_ARM;
constexpr uint32_t otherCalls[] = {182, 16,  95, 212, 198, 207, 325, 23,  46,  70,  71,  164, 170,
                                   138, 139, 81, 213, 214, 203, 204, 208, 210, 215, 216, 206, 185};
constexpr uint32_t otherMknod = 14;
constexpr uint32_t otherMknodat = 324;
#endif

class Filter {
public:
    explicit Filter(bool hasSingleId) : takesIds(hasSingleId) {
        load(offsetof(seccomp_data, arch));
        addProcessor(nativeProcessor, nativeCalls, sizeof nativeCalls / sizeof *nativeCalls, nativeMknod,
                     SYS_mknodat);
        addProcessor(otherProcessor, otherCalls, sizeof otherCalls / sizeof *otherCalls, otherMknod,
                     otherMknodat);
        allow();
    }

    bool install() {
        const sock_fprog program{.len = size, .filter = code};
        return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    }

private:
    void add(uint16_t operation, uint32_t value, uint8_t ifTrue = 0, uint8_t ifFalse = 0) {
        code[size++] = {operation, ifTrue, ifFalse, value};
    }
    void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
    void allow() { add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW); }
    void succeed() { add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO); }

    /// The calls of one processor, whose number is loaded; it is loaded again behind them.
    void addProcessor(uint32_t processor, const uint32_t* calls, unsigned count, uint32_t mknod,
                      uint32_t mknodat) {
        add(BPF_JMP | BPF_JEQ | BPF_K, processor, 1, 0);
        auto& skip = code[size];
        add(BPF_JMP | BPF_JA, 0);
        const auto begin = size;
        load(offsetof(seccomp_data, nr));
        for (unsigned i = 0; takesIds && i < count; ++i) {
            add(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
            succeed();
        }
        addDevices(mknod, 1);
        addDevices(mknodat, 2);
        allow();
        skip.k = static_cast<uint32_t>(size - begin);
    }

    /// Other nodes, such as FIFOs, can be made. `mode`: which argument it is.
    void addDevices(uint32_t call, unsigned mode) {
        add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 6);
        load(static_cast<uint32_t>(offsetof(seccomp_data, args) + sizeOfArgument * mode));
        add(BPF_ALU | BPF_AND | BPF_K, S_IFMT);
        add(BPF_JMP | BPF_JEQ | BPF_K, S_IFCHR, 1, 0);
        add(BPF_JMP | BPF_JEQ | BPF_K, S_IFBLK, 0, 1);
        succeed();
        allow();
    }

    bool takesIds;
    sock_filter code[160] = {};
    uint16_t size = 0;
};

}  // namespace

bool emulateRoot(bool hasSingleId) {
    return Filter(hasSingleId).install();
}

bool hasSingleId() {
    char text[256];
    const int fd = ::open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    const auto count = ::read(fd, text, sizeof text - 1);
    ::close(fd);
    if (count <= 0) {
        return true;
    }
    text[count] = '\0';
    const char* const end = ::strchr(text, '\n');
    const bool isOneLine = end == nullptr || end[1] == '\0';
    return isOneLine && ::strstr(text, " 1\n") != nullptr;
}
