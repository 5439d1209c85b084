#include "hooks/kit/elf.hpp"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t maxProgramHeaders = 1024;
constexpr std::size_t maxDynamicEntries = 16384;
constexpr std::size_t maxVersionRecords = 16384;
constexpr std::size_t maxStringLength = 4096;

[[noreturn]] void damaged(std::string_view what) {
    throw Error(cat("damaged ELF file: ", what));
}

/// Reads fields in the byte order of the file.
class Fields {
public:
    Fields(const char* bytes, bool bigEndian)
        : data(bytes), swap(bigEndian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)) {}

    std::uint16_t u16(std::size_t offset) const {
        const auto value = raw<std::uint16_t>(offset);
        return swap ? __builtin_bswap16(value) : value;
    }
    std::uint32_t u32(std::size_t offset) const {
        const auto value = raw<std::uint32_t>(offset);
        return swap ? __builtin_bswap32(value) : value;
    }
    /// An address-sized field.
    std::uint64_t word(std::size_t offset, bool is64Bit) const {
        if (!is64Bit) {
            return u32(offset);
        }
        const auto value = raw<std::uint64_t>(offset);
        return swap ? __builtin_bswap64(value) : value;
    }

private:
    template <typename Number>
    Number raw(std::size_t offset) const {
        Number value;
        std::memcpy(&value, data + offset, sizeof value);
        return value;
    }

    const char* data;
    bool swap;
};

struct Segment {
    std::uint64_t offset;
    std::uint64_t address;
    std::uint64_t size;
};

class Reader {
public:
    explicit Reader(ElfBytes& bytes) : source(bytes) {}

    std::optional<ElfFile> read(ElfDetail detail) {
        if (!readHeader()) {
            return std::nullopt;
        }
        readProgramHeaders(detail);
        if (dynamic.size > 0) {
            file.isDynamic = true;
            readDynamic(detail);
        }
        return std::move(file);
    }

private:
    bool readHeader() {
        char ident[EI_NIDENT];
        if (!source.read(0, ident, SELFMAG) || std::memcmp(ident, ELFMAG, SELFMAG) != 0) {
            return false;
        }
        char header[sizeof(Elf64_Ehdr)] = {};
        if (!source.read(0, header, sizeof(Elf32_Ehdr))) {
            damaged("the header is truncated");
        }
        const auto fileClass = header[EI_CLASS];
        const auto order = header[EI_DATA];
        if ((fileClass != ELFCLASS32 && fileClass != ELFCLASS64) ||
            (order != ELFDATA2LSB && order != ELFDATA2MSB)) {
            damaged("unknown class or byte order");
        }
        file.is64Bit = fileClass == ELFCLASS64;
        file.isBigEndian = order == ELFDATA2MSB;
        if (file.is64Bit && !source.read(0, header, sizeof header)) {
            damaged("the header is truncated");
        }
        const Fields fields(header, file.isBigEndian);
        file.type = fields.u16(16);
        file.machine = fields.u16(18);
        file.flags = fields.u32(file.is64Bit ? 48 : 36);
        programHeaders = fields.word(file.is64Bit ? 32 : 28, file.is64Bit);
        programHeaderSize = fields.u16(file.is64Bit ? 54 : 42);
        programHeaderCount = fields.u16(file.is64Bit ? 56 : 44);
        return true;
    }

    void readProgramHeaders(ElfDetail detail) {
        const std::size_t expected = file.is64Bit ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
        if (programHeaderCount == 0) {
            return;
        }
        if (programHeaderSize != expected || programHeaderCount > maxProgramHeaders) {
            damaged("unusable program header table");
        }
        loads.reserve(4);
        for (std::size_t i = 0; i < programHeaderCount; ++i) {
            char bytes[sizeof(Elf64_Phdr)];
            if (programHeaders > UINT64_MAX - i * expected ||
                !source.read(programHeaders + i * expected, bytes, expected)) {
                damaged("the program header table is truncated");
            }
            const Fields fields(bytes, file.isBigEndian);
            const bool wide = file.is64Bit;
            const Segment segment{fields.word(wide ? 8 : 4, wide), fields.word(wide ? 16 : 8, wide),
                                  fields.word(wide ? 32 : 16, wide)};
            const auto type = fields.u32(0);
            if (type == PT_LOAD) {
                loads.push_back(segment);
                if (fields.u32(wide ? 4 : 24) == PF_R) {
                    file.constants.push_back({segment.offset, segment.size});
                }
            } else if (type == PT_DYNAMIC) {
                dynamic = segment;
            } else if (type == PT_INTERP && detail == ElfDetail::everything) {
                file.interpreter =
                    source.readString(segment.offset, std::min<std::uint64_t>(segment.size, maxStringLength));
                if (!file.interpreter) {
                    damaged("the interpreter's name is not terminated");
                }
            }
        }
    }

    /// The file offset of an address in the loaded file.
    std::uint64_t fileOffset(std::uint64_t address) const {
        for (const auto& load : loads) {
            if (address >= load.address && address - load.address < load.size) {
                const auto offset = load.offset + (address - load.address);
                if (offset >= load.offset) {
                    return offset;
                }
            }
        }
        damaged("an address is in no segment");
    }

    struct Tables {
        std::optional<std::uint64_t> strings, soname, rpath, runpath, versionNeed, versionDefinition;
        std::uint64_t stringsSize = 0, versionNeedCount = 0, versionDefinitionCount = 0;
        std::vector<std::uint64_t> needed;
    };

    Tables readTables() {
        Tables tables;
        const std::size_t entrySize = file.is64Bit ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);
        const auto count = std::min<std::uint64_t>(dynamic.size / entrySize, maxDynamicEntries);
        source.expect(dynamic.offset, dynamic.size);
        for (std::uint64_t i = 0; i < count; ++i) {
            char bytes[sizeof(Elf64_Dyn)];
            if (dynamic.offset > UINT64_MAX - i * entrySize ||
                !source.read(dynamic.offset + i * entrySize, bytes, entrySize)) {
                damaged("the dynamic section is truncated");
            }
            const Fields fields(bytes, file.isBigEndian);
            const auto tag = fields.word(0, file.is64Bit);
            const auto value = fields.word(entrySize / 2, file.is64Bit);
            switch (tag) {
                case DT_NULL:
                    return tables;
                case DT_STRTAB:
                    tables.strings = value;
                    break;
                case DT_STRSZ:
                    tables.stringsSize = value;
                    break;
                case DT_SONAME:
                    tables.soname = value;
                    break;
                case DT_RPATH:
                    tables.rpath = value;
                    break;
                case DT_RUNPATH:
                    tables.runpath = value;
                    break;
                case DT_NEEDED:
                    tables.needed.push_back(value);
                    break;
                case DT_VERNEED:
                    tables.versionNeed = value;
                    break;
                case DT_VERNEEDNUM:
                    tables.versionNeedCount = value;
                    break;
                case DT_VERDEF:
                    tables.versionDefinition = value;
                    break;
                case DT_VERDEFNUM:
                    tables.versionDefinitionCount = value;
                    break;
                default:
                    break;
            }
        }
        return tables;
    }

    std::string string(std::uint64_t offset) {
        if (offset >= stringsSize) {
            damaged("a name is outside the string table");
        }
        auto text = source.readString(stringsOffset + offset,
                                      std::min<std::uint64_t>(stringsSize - offset, maxStringLength));
        if (!text) {
            damaged("a name is not terminated");
        }
        return std::move(*text);
    }

    std::optional<std::string> optionalString(const std::optional<std::uint64_t>& offset) {
        return offset ? std::optional(string(*offset)) : std::nullopt;
    }

    void readDynamic(ElfDetail detail) {
        const auto tables = readTables();
        if (!tables.strings) {
            return;
        }
        stringsOffset = fileOffset(*tables.strings);
        stringsSize = tables.stringsSize;
        if (stringsSize > UINT64_MAX - stringsOffset) {
            damaged("the string table is too large");
        }
        file.soname = optionalString(tables.soname);
        if (detail == ElfDetail::soname) {
            return;
        }
        for (const auto offset : tables.needed) {
            file.needed.push_back(string(offset));
        }
        file.rpath = optionalString(tables.rpath);
        file.runpath = optionalString(tables.runpath);
        if (tables.versionNeed) {
            readVersionNeeds(fileOffset(*tables.versionNeed), tables.versionNeedCount);
        }
        if (tables.versionDefinition) {
            readVersionDefinitions(fileOffset(*tables.versionDefinition), tables.versionDefinitionCount);
        }
    }

    /// One record of a version chain. The links of a chain are unsigned distances, so it can only go forward;
    /// the total number of records of the file is limited.
    template <std::size_t size>
    std::array<char, size> record(std::uint64_t offset) {
        if (++versionRecords > maxVersionRecords) {
            damaged("too many symbol versions");
        }
        std::array<char, size> bytes;
        if (!source.read(offset, bytes.data(), size)) {
            damaged("a version section is truncated");
        }
        return bytes;
    }

    static std::uint64_t forward(std::uint64_t offset, std::uint32_t distance) {
        if (distance > UINT64_MAX - offset) {
            damaged("a version section leads outside the file");
        }
        return offset + distance;
    }

    void readVersionNeeds(std::uint64_t offset, std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto bytes = record<sizeof(Elf64_Verneed)>(offset);
            const Fields need(bytes.data(), file.isBigEndian);
            VersionNeed entry{string(need.u32(4)), {}};
            auto auxiliary = forward(offset, need.u32(8));
            for (std::uint16_t j = 0; j < need.u16(2); ++j) {
                const auto auxiliaryBytes = record<sizeof(Elf64_Vernaux)>(auxiliary);
                const Fields version(auxiliaryBytes.data(), file.isBigEndian);
                if ((version.u16(4) & VER_FLG_WEAK) == 0) {
                    entry.versions.push_back(string(version.u32(8)));
                }
                if (version.u32(12) == 0) {
                    break;
                }
                auxiliary = forward(auxiliary, version.u32(12));
            }
            file.versionNeeds.push_back(std::move(entry));
            if (need.u32(12) == 0) {
                break;
            }
            offset = forward(offset, need.u32(12));
        }
    }

    void readVersionDefinitions(std::uint64_t offset, std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto bytes = record<sizeof(Elf64_Verdef)>(offset);
            const Fields definition(bytes.data(), file.isBigEndian);
            if ((definition.u16(2) & VER_FLG_BASE) == 0 && definition.u16(6) > 0) {
                const auto auxiliary = record<sizeof(Elf64_Verdaux)>(forward(offset, definition.u32(12)));
                file.versionDefinitions.push_back(string(Fields(auxiliary.data(), file.isBigEndian).u32(0)));
            }
            if (definition.u32(16) == 0) {
                break;
            }
            offset = forward(offset, definition.u32(16));
        }
    }

    ElfBytes& source;
    ElfFile file;
    std::uint64_t programHeaders = 0;
    std::size_t programHeaderSize = 0;
    std::size_t programHeaderCount = 0;
    std::vector<Segment> loads;
    Segment dynamic{};
    std::uint64_t stringsOffset = 0;
    std::uint64_t stringsSize = 0;
    std::size_t versionRecords = 0;
};

}  // namespace

std::size_t ElfBytes::readSome(std::uint64_t offset, char* out, std::size_t size, std::size_t enough) const {
    if (descriptor < 0) {
        if (offset >= memory.size()) {
            return 0;
        }
        return memory.copy(out, size, static_cast<std::size_t>(offset));
    }
    if (offset > static_cast<std::uint64_t>(INT64_MAX) - size) {
        return 0;
    }
    std::size_t done = 0;
    while (done < enough) {
        const auto count = ::pread(descriptor, out + done, size - done, static_cast<off_t>(offset + done));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            break;
        }
        done += static_cast<std::size_t>(count);
    }
    return done;
}

std::string_view ElfBytes::bytesFrom(std::uint64_t offset, std::size_t enough) {
    if (offset < headSize && headSize - offset >= enough) {
        return std::string_view(head.data(), headSize).substr(static_cast<std::size_t>(offset));
    }
    if (offset == 0) {
        headSize = readSome(0, head.data(), head.size(), enough);
        return {head.data(), headSize};
    }
    const auto has = [&](const Window& window) {
        return offset >= window.start && offset - window.start < window.size &&
               window.size - (offset - window.start) >= enough;
    };
    if (!has(windows[lastUsed])) {
        lastUsed = 1 - lastUsed;
    }
    auto& window = windows[lastUsed];
    if (!has(window)) {
        const auto expected = offset == expectedStart ? expectedSize : 0;
        window.start = offset;
        window.size =
            readSome(offset, window.bytes.data(), std::max({windowLimit, enough, expected}), enough);
    }
    return std::string_view(window.bytes.data(), window.size)
        .substr(static_cast<std::size_t>(offset - window.start));
}

void ElfBytes::expect(std::uint64_t offset, std::uint64_t size) {
    expectedStart = offset;
    expectedSize = static_cast<std::size_t>(std::min<std::uint64_t>(size, maxWindow));
}

bool ElfBytes::read(std::uint64_t offset, void* out, std::size_t size) {
    if (size > maxWindow) {
        return readSome(offset, static_cast<char*>(out), size, size) == size;
    }
    const auto bytes = bytesFrom(offset, size);
    if (bytes.size() < size) {
        return false;
    }
    std::memcpy(out, bytes.data(), size);
    return true;
}

std::optional<std::string> ElfBytes::readString(std::uint64_t offset, std::size_t limit) {
    std::string text;
    while (text.size() < limit && text.size() <= UINT64_MAX - offset) {
        auto bytes = bytesFrom(offset + text.size(), 1);
        if (bytes.empty()) {
            return std::nullopt;
        }
        bytes = bytes.substr(0, limit - text.size());
        const auto end = bytes.find('\0');
        text.append(bytes.substr(0, end));
        if (end != std::string_view::npos) {
            return text;
        }
    }
    return std::nullopt;
}

std::optional<ElfFile> readElf(ElfBytes& source, ElfDetail detail) {
    return Reader(source).read(detail);
}

std::optional<ElfFile> readElf(int fd, ElfDetail detail) {
    // Only one of the strings is needed.
    constexpr std::size_t enoughForSoname = 64;
    ElfBytes source(fd, detail == ElfDetail::soname ? enoughForSoname : ElfBytes::maxWindow);
    return readElf(source, detail);
}

}  // namespace sarus::hooks
