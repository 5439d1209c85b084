#include "starter/rootfs/program_interpreter.hpp"

#include <elf.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/read_bytes.hpp"

namespace sarus::starter {

namespace {

template <typename Record>
std::optional<Record> readRecord(int file, std::uint64_t offset) {
    const auto bytes = readableBytes(file, offset, sizeof(Record));
    Record record;
    if (bytes.size() != sizeof record) {
        return std::nullopt;
    }
    std::memcpy(&record, bytes.data(), sizeof record);
    return record;
}

std::optional<std::string> ofScript(std::string_view firstLine) {
    constexpr std::string_view blanks = " \t";
    firstLine = firstLine.substr(0, firstLine.find('\n'));
    firstLine.remove_prefix(std::min(firstLine.find_first_not_of(blanks), firstLine.size()));
    const auto word = firstLine.substr(0, firstLine.find_first_of(blanks));
    return word.empty() ? std::nullopt : std::optional<std::string>(word);
}

std::optional<std::string> ofElf(int file) {
    const auto header = readRecord<Elf64_Ehdr>(file, 0);
    if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_phentsize != sizeof(Elf64_Phdr)) {
        return std::nullopt;
    }
    for (unsigned i = 0; i < header->e_phnum; ++i) {
        const auto segment = readRecord<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
        if (!segment) {
            return std::nullopt;
        }
        if (segment->p_type == PT_INTERP) {
            const auto path =
                readableBytes(file, segment->p_offset, std::min<std::uint64_t>(segment->p_filesz, PATH_MAX));
            return std::string(path.c_str());
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> interpreterOf(int file) {
    constexpr std::size_t longestLine = 256;  // the kernel reads no more
    const auto beginning = readableBytes(file, 0, longestLine);
    return beginning.starts_with("#!")     ? ofScript(std::string_view(beginning).substr(2))
           : beginning.starts_with(ELFMAG) ? ofElf(file)
                                           : std::nullopt;
}

}  // namespace sarus::starter
