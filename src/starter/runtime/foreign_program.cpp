#include "starter/runtime/foreign_program.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "base/text.hpp"

namespace sarus::starter {

namespace {

struct Processor {
    unsigned machine;       ///< e_machine of elf(5)
    std::string_view name;  ///< as in uname(1)
    std::string_view platform;
};

#ifndef EM_RISCV
#define EM_RISCV 243
#endif

constexpr std::array processors{
    Processor{EM_X86_64, "x86_64", "linux/amd64"},   Processor{EM_AARCH64, "aarch64", "linux/arm64"},
    Processor{EM_PPC64, "ppc64", "linux/ppc64le"},   Processor{EM_S390, "s390x", "linux/s390x"},
    Processor{EM_RISCV, "riscv64", "linux/riscv64"},
};

/// This node's machine, and the older one whose programs its processor also runs.
#if defined(__x86_64__)
constexpr std::array<unsigned, 2> own{EM_X86_64, EM_386};
#elif defined(__aarch64__)
constexpr std::array<unsigned, 2> own{EM_AARCH64, EM_ARM};
#elif defined(__powerpc64__)
constexpr std::array<unsigned, 2> own{EM_PPC64, EM_PPC};
#else
constexpr std::array<unsigned, 2> own{EM_NONE, EM_NONE};  // treats every program as native
#endif

const Processor* find(unsigned machine) {
    const auto* const found = std::find_if(processors.begin(), processors.end(), [&](const auto& processor) {
        return processor.machine == machine;
    });
    return found == processors.end() ? nullptr : found;
}

}  // namespace

std::string describeForeignProgram(std::string_view command, std::string_view beginning) {
    const Processor* const node = find(own.front());
    if (node == nullptr || beginning.size() < offsetof(Elf64_Ehdr, e_version) ||
        !beginning.starts_with(ELFMAG)) {
        return {};
    }
    const auto byte = [&](std::size_t position) {
        return static_cast<unsigned>(static_cast<unsigned char>(beginning[position]));
    };
    constexpr auto position = offsetof(Elf64_Ehdr, e_machine);
    const unsigned machine = byte(EI_DATA) == ELFDATA2MSB ? byte(position) << 8U | byte(position + 1)
                                                          : byte(position + 1) << 8U | byte(position);
    if (std::find(own.begin(), own.end(), machine) != own.end()) {
        return {};
    }
    const auto* const processor = find(machine);
    return cat("The program \"", printable(command), "\" is for ",
               processor != nullptr ? cat(processor->name, " processors")
                                    : cat("other processors (number ", machine, " of ELF)"),
               ", and this node has ", node->name, "\nGet the image for this node: sarus pull --platform ",
               node->platform);
}

}  // namespace sarus::starter
