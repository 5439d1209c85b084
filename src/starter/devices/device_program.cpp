#include "starter/devices/device_program.hpp"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace sarus::starter {

namespace {

/// Registers of the program. The first one holds the context, whose fields are loaded into the others.
enum Register : std::uint8_t {
    result = BPF_REG_0,
    context = BPF_REG_1,
    type = BPF_REG_2,
    access = BPF_REG_3,
    major = BPF_REG_4,
    minor = BPF_REG_5
};

int callBpf(int command, bpf_attr& attributes) {
    return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

bpf_insn instruction(unsigned code, Register to, Register from, std::size_t offset, std::uint32_t value) {
    constexpr unsigned mask = 0xf;
    bpf_insn made{};
    made.code = static_cast<std::uint8_t>(code);
    made.dst_reg = to & mask;
    made.src_reg = from & mask;
    made.off = static_cast<std::int16_t>(offset);
    made.imm = static_cast<std::int32_t>(value);
    return made;
}

bpf_insn load(Register to, std::size_t offset) {
    return instruction(BPF_LDX | BPF_MEM | BPF_W, to, context, offset, 0);
}

bpf_insn compute(unsigned operation, Register to, std::uint32_t value) {
    return instruction(BPF_ALU | operation | BPF_K, to, result, 0, value);
}

bpf_insn copy(Register to, Register from) {
    return instruction(BPF_ALU | BPF_MOV | BPF_X, to, from, 0, 0);
}

/// Jumps over `count` instructions if the register has another value.
bpf_insn skipUnless(Register which, std::uint32_t value, std::size_t count) {
    return instruction(BPF_JMP32 | BPF_JNE | BPF_K, which, result, count, value);
}

void appendEnd(std::vector<bpf_insn>& program, std::uint32_t answer) {
    program.push_back(compute(BPF_MOV, result, answer));
    program.push_back(instruction(BPF_JMP | BPF_EXIT, result, result, 0, 0));
}

std::uint32_t accessBits(std::string_view letters) {
    std::uint32_t bits = 0;
    for (const char letter : letters) {
        bits |= letter == 'r'   ? unsigned{BPF_DEVCG_ACC_READ}
                : letter == 'w' ? unsigned{BPF_DEVCG_ACC_WRITE}
                                : unsigned{BPF_DEVCG_ACC_MKNOD};
    }
    return bits;
}

/// The tests of one pattern. Each leads to "allowed" or to the next pattern.
void appendPattern(std::vector<bpf_insn>& program, const DevicePattern& pattern) {
    constexpr std::size_t accessTest = 3;
    constexpr std::size_t end = 2;
    const std::size_t numbers = (pattern.major ? 1U : 0U) + (pattern.minor ? 1U : 0U);
    std::size_t rest = numbers + accessTest + end;
    program.push_back(skipUnless(type, pattern.type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR, rest));
    if (pattern.major) {
        program.push_back(skipUnless(major, *pattern.major, --rest));
    }
    if (pattern.minor) {
        program.push_back(skipUnless(minor, *pattern.minor, --rest));
    }
    program.push_back(copy(result, access));
    program.push_back(compute(BPF_AND, result, ~accessBits(pattern.access)));
    program.push_back(skipUnless(result, 0, end));
    appendEnd(program, 1);
}

std::vector<bpf_insn> makeProgram(const std::vector<DevicePattern>& allowed) {
    constexpr std::uint32_t typeMask = 0xffff;  // access_type: the type below, the access above
    std::vector<bpf_insn> program{load(type, offsetof(bpf_cgroup_dev_ctx, access_type)),
                                  copy(access, type),
                                  compute(BPF_AND, type, typeMask),
                                  compute(BPF_RSH, access, 16),
                                  load(major, offsetof(bpf_cgroup_dev_ctx, major)),
                                  load(minor, offsetof(bpf_cgroup_dev_ctx, minor))};
    for (const auto& pattern : allowed) {
        appendPattern(program, pattern);
    }
    appendEnd(program, 0);
    return program;
}

UniqueFd loadProgram(const std::vector<bpf_insn>& program) {
    bpf_attr attributes{};
    attributes.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    attributes.insns = reinterpret_cast<std::uintptr_t>(
        program.data());  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast): the kernel's ABI
    attributes.insn_cnt = static_cast<std::uint32_t>(program.size());
    attributes.license =
        reinterpret_cast<std::uintptr_t>("");  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
    UniqueFd fd(callBpf(BPF_PROG_LOAD, attributes));
    if (!fd) {
        throw Error::fromErrno(
            "Failed to load the device rules of the container into the kernel", errno,
            "The kernel needs CONFIG_CGROUP_BPF, and the starter the right to load programs");
    }
    return fd;
}

/// The number of programs that decide about devices in a cgroup, including those of its ancestors.
std::uint32_t effectivePrograms(int cgroup) {
    bpf_attr attributes{};
    attributes.query.target_fd = static_cast<std::uint32_t>(cgroup);
    attributes.query.attach_type = BPF_CGROUP_DEVICE;
    attributes.query.query_flags = BPF_F_QUERY_EFFECTIVE;
    checkErrno(callBpf(BPF_PROG_QUERY, attributes),
               "Failed to examine the device rules of the container's cgroup");
    return attributes.query.prog_cnt;
}

}  // namespace

void attachDeviceProgram(int cgroup, const std::vector<DevicePattern>& allowed) {
    const auto program = loadProgram(makeProgram(allowed));
    const auto before = effectivePrograms(cgroup);
    bpf_attr attributes{};
    attributes.target_fd = static_cast<std::uint32_t>(cgroup);
    attributes.attach_bpf_fd = static_cast<std::uint32_t>(program.get());
    attributes.attach_type = BPF_CGROUP_DEVICE;
    attributes.attach_flags = BPF_F_ALLOW_MULTI;
    checkErrno(callBpf(BPF_PROG_ATTACH, attributes),
               "Failed to restrict the devices of the container's cgroup");
    // If a job's program was attached as overridable, ours would replace it and widen the job's rights.
    if (effectivePrograms(cgroup) != before + 1) {
        throw Error(
            "Failed to restrict the devices of the container: its rules would replace those of the job's "
            "cgroup");
    }
}

}  // namespace sarus::starter
