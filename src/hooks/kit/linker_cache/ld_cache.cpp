#include "hooks/kit/linker_cache/ld_cache.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

namespace {

constexpr std::string_view oldMagic = "ld.so-1.7.0";
constexpr std::string_view newMagic = "glibc-ld.so.cache1.1";
constexpr std::size_t oldHeader = 16;
constexpr std::size_t oldEntry = 12;
constexpr std::size_t newHeader = 48;
constexpr std::size_t newEntry = 24;
constexpr std::uint32_t extensionMagic = 0xeaa42174;
constexpr std::uint32_t generatorSection = 0;
constexpr std::uint32_t hwcapsSection = 1;

/// Our own sections; the dynamic linker skips unknown ones.
struct NoteSection {
    std::uint32_t tag;
    std::size_t limit;
    std::string_view LdCacheNotes::*note;
};
constexpr NoteSection noteSections[] = {{0x73726b31, 1U << 20U, &LdCacheNotes::stamp},
                                        {0x73726b32, 4U << 20U, &LdCacheNotes::libraries}};

constexpr std::uint64_t hwcapsBit = std::uint64_t{1} << 62U;
constexpr std::uint64_t isaLevelMask = std::uint64_t{0x3ff} << 32U;
constexpr std::size_t maxTextLength = 4096;
constexpr unsigned char littleEndianMark = 2;
constexpr unsigned char bigEndianMark = 3;

[[noreturn]] void damaged(std::string_view what) {
    throw Error(cat("damaged dynamic linker cache: ", what));
}

std::uint32_t byteSwapped(std::uint32_t value) {
    return __builtin_bswap32(value);
}

void put32(std::string& out, std::uint32_t value, bool bigEndian) {
    const std::uint32_t ordered = bigEndian ? byteSwapped(value) : value;
    char bytes[sizeof ordered];
    std::memcpy(bytes, &ordered, sizeof bytes);
    out.append(bytes, sizeof bytes);
}

}  // namespace

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the cache reader and writer assume a little-endian machine");

class LdCacheParser {
public:
    explicit LdCacheParser(std::string_view bytes) { cache.data.assign(bytes.begin(), bytes.end()); }

    LdCache parse() {
        if (startsWith(0, newMagic)) {
            parseNew(0);
        } else if (startsWith(0, oldMagic)) {
            parseOldOrBoth();
        } else {
            damaged("unknown format");
        }
        return std::move(cache);
    }

private:
    std::size_t size() const { return cache.data.size(); }

    bool startsWith(std::size_t offset, std::string_view magic) const {
        return offset <= size() && size() - offset >= magic.size() &&
               std::memcmp(cache.data.data() + offset, magic.data(), magic.size()) == 0;
    }

    std::uint32_t u32(std::size_t offset) const {
        if (offset > size() || size() - offset < sizeof(std::uint32_t)) {
            damaged("it is truncated");
        }
        std::uint32_t value = 0;
        std::memcpy(&value, cache.data.data() + offset, sizeof value);
        return bigEndian ? byteSwapped(value) : value;
    }

    std::string_view text(std::size_t base, std::uint32_t offset) {
        if (offset >= size() - base) {
            damaged("a name is outside of the file");
        }
        const char* start = cache.data.data() + base + offset;
        const auto limit = std::min(size() - base - offset, maxTextLength);
        const auto* end = static_cast<const char*>(std::memchr(start, '\0', limit));
        if (end == nullptr) {
            damaged("a name is not terminated");
        }
        // Entries may share their texts, as "libx.so.1" and "/usr/lib/libx.so.1" do. But a small file must
        // not become huge when copied.
        textSize += static_cast<std::size_t>(end - start);
        if (textSize > 4 * size()) {
            damaged("its names overlap");
        }
        return {start, static_cast<std::size_t>(end - start)};
    }

    void parseOldOrBoth() {
        std::uint64_t count = u32(12);
        if ((size() < oldHeader) || count > (size() - oldHeader) / oldEntry) {
            bigEndian = true;
            count = u32(12);
        }
        if (size() < oldHeader || count > (size() - oldHeader) / oldEntry) {
            damaged("it holds fewer entries than it says");
        }
        const std::size_t end = oldHeader + static_cast<std::size_t>(count) * oldEntry;
        // If a file has both formats, the new one follows at the alignment used by its writer's compiler.
        for (const std::size_t alignment : {std::size_t{8}, std::size_t{4}}) {
            const auto start = (end + alignment - 1) / alignment * alignment;
            if (startsWith(start, newMagic)) {
                bigEndian = false;
                parseNew(start);
                return;
            }
        }
        cache.list.reserve(static_cast<std::size_t>(count));
        for (std::size_t offset = oldHeader; offset < end; offset += oldEntry) {
            cache.list.push_back(
                {text(end, u32(offset + 4)), text(end, u32(offset + 8)), u32(offset), 0, {}});
        }
    }

    void parseNew(std::size_t base) {
        if (size() - base < newHeader) {
            damaged("it is truncated");
        }
        const auto available = (size() - base - newHeader) / newEntry;
        const auto order = static_cast<unsigned char>(cache.data[base + 28]) & 3U;
        // Caches of glibc before 2.33 do not state their byte order: the wrong one yields an absurd number of
        // entries.
        bigEndian = order == bigEndianMark || (order == 0 && u32(base + 20) > available);
        const std::size_t count = u32(base + 20);
        if (count > available) {
            damaged("it holds fewer entries than it says");
        }
        const auto subdirectories = parseExtensions(base, u32(base + 32));
        cache.list.reserve(count);
        for (std::size_t i = 0; i < count; ++i) {
            const auto offset = base + newHeader + i * newEntry;
            const std::uint64_t low = u32(offset + (bigEndian ? 20 : 16));
            const std::uint64_t high = u32(offset + (bigEndian ? 16 : 20));
            LdCacheEntry entry{text(base, u32(offset + 4)),
                               text(base, u32(offset + 8)),
                               u32(offset),
                               (high << 32U) | low,
                               {}};
            if (((high << 32U) & ~isaLevelMask) == hwcapsBit && low < subdirectories.size()) {
                entry.hwcapsSubdirectory = subdirectories[static_cast<std::size_t>(low)];
            }
            cache.list.push_back(entry);
        }
    }

    std::vector<std::string_view> parseExtensions(std::size_t base, std::uint32_t start) {
        std::vector<std::string_view> subdirectories;
        // Unlike entries, extensions are optional: unreadable ones count as absent.
        if (start == 0 || start % 4 != 0 || start > size() - base || size() - base - start < 8 ||
            u32(base + start) != extensionMagic) {
            return subdirectories;
        }
        const std::uint32_t count = std::min<std::uint32_t>(u32(base + start + 4), 64);
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::size_t section = base + start + 8 + std::size_t{i} * 16;
            const auto tag = u32(section);
            const auto offset = u32(section + 8);
            const auto length = u32(section + 12);
            if (offset > size() - base || length > size() - base - offset) {
                damaged("an extension is outside of the file");
            }
            const std::string_view content(cache.data.data() + base + offset, length);
            if (tag == generatorSection) {
                cache.generatorText = content;
            } else if (tag == hwcapsSection) {
                subdirectories.clear();
                for (std::uint32_t at = 0; at + 4 <= length; at += 4) {
                    subdirectories.push_back(text(base, u32(base + offset + at)));
                }
            }
        }
        return subdirectories;
    }

    LdCache cache;
    std::size_t textSize = 0;
    bool bigEndian = false;
};

LdCache LdCache::parse(std::string_view bytes) {
    return LdCacheParser(bytes).parse();
}

std::optional<std::string> readLdCacheNote(ElfBytes& cache, std::uint64_t size,
                                           std::string_view LdCacheNotes::*note) {
    constexpr std::uint32_t maxSections = 64;
    const auto& wanted = *std::find_if(std::begin(noteSections), std::end(noteSections),
                                       [note](const auto& known) { return known.note == note; });
    const auto number = [](const char* bytes) {
        std::uint32_t value = 0;
        std::memcpy(&value, bytes, sizeof value);
        return value;
    };
    char header[newHeader];
    // Caches of the other byte order are written without notes.
    if (!cache.read(0, header, sizeof header) || std::memcmp(header, newMagic.data(), newMagic.size()) != 0 ||
        static_cast<unsigned char>(header[28]) != littleEndianMark) {
        return std::nullopt;
    }
    std::uint64_t offset = number(header + 32);
    char extensions[8];
    if (!cache.read(offset, extensions, sizeof extensions) || number(extensions) != extensionMagic) {
        return std::nullopt;
    }
    offset += sizeof extensions;
    const auto sections = std::min(number(extensions + 4), maxSections);
    for (std::uint32_t i = 0; i < sections; ++i, offset += 16) {
        char section[16];
        if (!cache.read(offset, section, sizeof section)) {
            return std::nullopt;
        }
        if (number(section) == wanted.tag) {
            const auto length = number(section + 12);
            std::string content(length <= std::min<std::uint64_t>(wanted.limit, size) ? length : 0, '\0');
            const bool isThere =
                !content.empty() && cache.read(number(section + 8), content.data(), content.size());
            return isThere ? std::optional(std::move(content)) : std::nullopt;
        }
    }
    return std::nullopt;
}

std::optional<std::uint32_t> ldCacheFlags(const ElfFile& library) {
    constexpr std::uint32_t armHard = 0x400;
    constexpr std::uint32_t riscvFloatMask = 0x6;
    constexpr std::uint32_t riscvFloatDouble = 0x4;
    constexpr std::uint32_t loongarchAbiMask = 0x7;
    constexpr std::uint32_t loongarchSoft = 0x1;
    using namespace ld_cache_flags;
    switch (library.machine) {
        case machine::i386:
            return elfLibc6;
        case machine::x86_64:
            return library.is64Bit ? x86_64 : x32;
        case machine::aarch64:
            return library.is64Bit ? std::optional(aarch64) : std::nullopt;
        case machine::arm:
            return (library.flags & armHard) != 0 ? armHardFloat : armSoftFloat;
        case machine::powerpc64:
            return powerpc64;
        case machine::s390:
            return library.is64Bit ? s390_64 : elfLibc6;
        case machine::riscv:
            return (library.flags & riscvFloatMask) == riscvFloatDouble ? ld_cache_flags::riscvFloatDouble
                                                                        : riscvFloatSoft;
        case machine::loongarch:
            return (library.flags & loongarchAbiMask) == loongarchSoft ? loongarchFloatSoft
                                                                       : loongarchFloatDouble;
        default:
            return std::nullopt;
    }
}

int compareLibraryNames(std::string_view left, std::string_view right) noexcept {
    const auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
    std::size_t i = 0;
    std::size_t j = 0;
    // The reader computes in 32 bits with wrap-around, so the order of very long numbers must wrap, too.
    const auto number = [&](std::string_view text, std::size_t& at) {
        std::uint32_t value = 0;
        for (; at < text.size() && isDigit(text[at]); ++at) {
            value = value * 10 + static_cast<std::uint32_t>(text[at] - '0');
        }
        return value;
    };
    while (i < left.size()) {
        const char a = left[i];
        const char b = j < right.size() ? right[j] : '\0';
        if (isDigit(a) && isDigit(b)) {
            const auto difference = static_cast<std::int32_t>(number(left, i) - number(right, j));
            if (difference != 0) {
                return difference;
            }
        } else if (isDigit(a) || isDigit(b)) {
            return isDigit(a) ? 1 : -1;
        } else if (a != b) {
            return a - b;
        } else {
            ++i;
            ++j;
        }
    }
    return j < right.size() ? -right[j] : 0;
}

namespace {

/// The records in the order of a cache. Stable: the earlier of two equal records comes first.
std::vector<const LdCacheRecord*> sortedRecords(const std::vector<LdCacheRecord>& records) {
    std::vector<const LdCacheRecord*> sorted;
    sorted.reserve(records.size());
    for (const auto& record : records) {
        sorted.push_back(&record);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const LdCacheRecord* a, const LdCacheRecord* b) {
        if (const int order = compareLibraryNames(a->name, b->name); order != 0) {
            return order > 0;
        }
        if (a->flags != b->flags) {
            return a->flags > b->flags;
        }
        // The dynamic linker stops looking for processor-specific variants at the first plain entry.
        if (a->hwcapsSubdirectory.empty() != b->hwcapsSubdirectory.empty()) {
            return b->hwcapsSubdirectory.empty();
        }
        return a->hwcapsSubdirectory < b->hwcapsSubdirectory;
    });
    return sorted;
}

/// Collects texts and remembers their offsets.
class StringTable {
public:
    explicit StringTable(std::size_t offsetOfTable) : base(offsetOfTable) {}

    std::uint32_t add(std::string_view text) {
        const auto offset = base + bytes.size();
        if (offset + text.size() > UINT32_MAX) {
            throw Error("The dynamic linker cache would be larger than 4 GB");
        }
        bytes += text;
        bytes += '\0';
        return static_cast<std::uint32_t>(offset);
    }

    const std::string& content() const { return bytes; }

private:
    std::size_t base;
    std::string bytes;
};

void padTo4(std::string& out) {
    out.resize((out.size() + 3) / 4 * 4, '\0');
}

/// Appends the extension directory with its sections; `hwcaps` are the offsets of the subdirectories' names.
void appendExtensions(std::string& out, const std::vector<std::uint32_t>& hwcaps, const LdCacheNotes& notes,
                      bool bigEndian) {
    constexpr std::string_view generator = "sarus";
    std::string names;
    for (const auto offset : hwcaps) {
        put32(names, offset, bigEndian);
    }
    std::vector<std::pair<std::uint32_t, std::string_view>> sections{{generatorSection, generator}};
    if (!hwcaps.empty()) {
        sections.emplace_back(hwcapsSection, names);
    }
    for (const auto& known : noteSections) {
        if (!(notes.*known.note).empty()) {
            sections.emplace_back(known.tag, notes.*known.note);
        }
    }
    put32(out, extensionMagic, bigEndian);
    put32(out, static_cast<std::uint32_t>(sections.size()), bigEndian);
    std::size_t offset = out.size() + sections.size() * 16;
    for (const auto& [tag, content] : sections) {
        put32(out, tag, bigEndian);
        put32(out, 0, bigEndian);
        put32(out, static_cast<std::uint32_t>(offset), bigEndian);
        put32(out, static_cast<std::uint32_t>(content.size()), bigEndian);
        offset = (offset + content.size() + 3) / 4 * 4;
    }
    for (const auto& section : sections) {
        out += section.second;
        padTo4(out);
    }
}

}  // namespace

std::string serializeLdCache(const std::vector<LdCacheRecord>& records, const LdCacheNotes& notes,
                             bool bigEndian) {
    // The dynamic linker merges the names of the subdirectories with its own sorted list, so they must be
    // sorted.
    std::map<std::string_view, std::uint32_t> subdirectories;
    for (const auto& record : records) {
        if (!record.hwcapsSubdirectory.empty()) {
            subdirectories.emplace(record.hwcapsSubdirectory, 0);
        }
    }
    std::uint32_t index = 0;
    for (auto& subdirectory : subdirectories) {
        subdirectory.second = index++;
    }

    StringTable strings(newHeader + records.size() * newEntry);
    std::string entries;
    entries.reserve(records.size() * newEntry);
    for (const auto* sorted : sortedRecords(records)) {
        const auto& record = *sorted;
        const auto path = strings.add(record.path);
        const bool isTail = record.path.size() > record.name.size() && record.path.ends_with(record.name);
        const auto name = isTail ? path + static_cast<std::uint32_t>(record.path.size() - record.name.size())
                                 : strings.add(record.name);
        const bool plain = record.hwcapsSubdirectory.empty();
        const auto high = plain ? 0 : static_cast<std::uint32_t>(hwcapsBit >> 32U);
        const auto low = plain ? 0 : subdirectories[record.hwcapsSubdirectory];
        put32(entries, record.flags, bigEndian);
        put32(entries, name, bigEndian);
        put32(entries, path, bigEndian);
        put32(entries, 0, bigEndian);  // osversion: any kernel
        put32(entries, bigEndian ? high : low, bigEndian);
        put32(entries, bigEndian ? low : high, bigEndian);
    }
    std::vector<std::uint32_t> hwcaps;
    for (const auto& subdirectory : subdirectories) {
        hwcaps.push_back(strings.add(subdirectory.first));
    }

    std::string out(newMagic);
    put32(out, static_cast<std::uint32_t>(records.size()), bigEndian);
    put32(out, static_cast<std::uint32_t>(strings.content().size()), bigEndian);
    out += static_cast<char>(bigEndian ? bigEndianMark : littleEndianMark);
    out.append(3, '\0');
    const auto beforeExtensions = newHeader + entries.size() + strings.content().size();
    put32(out, static_cast<std::uint32_t>((beforeExtensions + 3) / 4 * 4), bigEndian);
    out.append(12, '\0');
    out += entries;
    out += strings.content();
    padTo4(out);
    appendExtensions(out, hwcaps, notes, bigEndian);
    return out;
}

}  // namespace sarus::hooks
