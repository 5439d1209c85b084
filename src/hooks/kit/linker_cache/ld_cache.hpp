#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/kit/elf.hpp"

namespace sarus::hooks {

inline constexpr const char* cachePath = "/etc/ld.so.cache";
inline constexpr std::size_t maxCacheSize = 16U << 20U;

/// The `flags` of a cache entry: the library's ABI for the dynamic linker (glibc, "ldconfig.h"). The lowest
/// byte is the kind of library; 3 stands for ELF with the GNU C library 2.
namespace ld_cache_flags {
inline constexpr std::uint32_t elfLibc6 = 0x0003;
inline constexpr std::uint32_t x86_64 = 0x0303;
inline constexpr std::uint32_t x32 = 0x0803;
inline constexpr std::uint32_t aarch64 = 0x0a03;
inline constexpr std::uint32_t armHardFloat = 0x0903;
inline constexpr std::uint32_t armSoftFloat = 0x0b03;
inline constexpr std::uint32_t powerpc64 = 0x0503;
inline constexpr std::uint32_t s390_64 = 0x0403;
inline constexpr std::uint32_t riscvFloatSoft = 0x0f03;
inline constexpr std::uint32_t riscvFloatDouble = 0x1003;
inline constexpr std::uint32_t loongarchFloatSoft = 0x1103;
inline constexpr std::uint32_t loongarchFloatDouble = 0x1203;
}  // namespace ld_cache_flags

/// The cache flags of a library; nullopt for unknown machines.
std::optional<std::uint32_t> ldCacheFlags(const ElfFile& library);

/// One library of a cache that was read. The texts belong to the LdCache.
struct LdCacheEntry {
    std::string_view name;  ///< the name that programs request: SONAME or file name
    std::string_view path;  ///< absolute, as seen inside the root filesystem
    std::uint32_t flags = 0;
    std::uint64_t hwcap = 0;              ///< 0: for every processor
    std::string_view hwcapsSubdirectory;  ///< "x86-64-v3" for a library below glibc-hwcaps, otherwise empty
};

/// The content of an /etc/ld.so.cache in the old format ("ld.so-1.7.0"), the new one ("glibc-ld.so.cache1.1",
/// either byte order) or both in one file; then the new one counts. Movable, not copyable: the entries refer
/// to its bytes.
class LdCache {
public:
    /// Throws Error if the bytes are not a cache, or if an entry leads outside them.
    static LdCache parse(std::string_view bytes);

    LdCache(LdCache&&) noexcept = default;
    LdCache& operator=(LdCache&&) noexcept = default;
    LdCache(const LdCache&) = delete;
    LdCache& operator=(const LdCache&) = delete;

    /// In file order, which is the dynamic linker's order of preference among libraries of one name.
    const std::vector<LdCacheEntry>& entries() const noexcept { return list; }
    /// The program that wrote the cache; empty if unknown.
    std::string_view generator() const noexcept { return generatorText; }

private:
    LdCache() = default;
    friend class LdCacheParser;

    std::vector<char> data;
    std::vector<LdCacheEntry> list;
    std::string_view generatorText;
};

/// Notes for a later run, in our own extension sections of a cache, which the dynamic linker and ldconfig
/// ignore.
struct LdCacheNotes {
    std::string_view stamp{};      ///< of the cache's inputs (cache_stamp.hpp); at most 1 MiB
    std::string_view libraries{};  ///< results for each file (library_table.hpp); at most 4 MiB
};

/// One of the notes in a cache of `size` bytes, read without the entries; nullopt if it is missing or
/// misplaced.
std::optional<std::string> readLdCacheNote(ElfBytes& cache, std::uint64_t size,
                                           std::string_view LdCacheNotes::*note);

/// One library for a new cache.
struct LdCacheRecord {
    std::string name;
    std::string path;
    std::uint32_t flags = 0;
    std::string hwcapsSubdirectory;
    bool operator==(const LdCacheRecord&) const = default;
};

/// The bytes of a cache in the new format, which every glibc since 2.2 reads. The records may come in any
/// order; among records of one name the earlier is preferred.
std::string serializeLdCache(const std::vector<LdCacheRecord>& records, const LdCacheNotes& notes = {},
                             bool bigEndian = false);

/// The order of names in a cache, negative if `left` comes before: digits compare as numbers (glibc,
/// "_dl_cache_libcmp"). The cache holds the names in descending order.
int compareLibraryNames(std::string_view left, std::string_view right) noexcept;

}  // namespace sarus::hooks
