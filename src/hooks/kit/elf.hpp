#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::hooks {

/// Random access to the bytes of an open file (not owned) or of a text in memory. Caches the start of the
/// file once requested, and small windows of the last two other places: versions and their names alternate.
/// Uses pread(2) and never maps files, so that truncating a file cannot crash the program.
class ElfBytes {
public:
    static constexpr std::size_t maxWindow = 4096;

    /// `atOnce`: read size beyond the beginning, at most maxWindow.
    explicit ElfBytes(int fd, std::size_t atOnce = maxWindow) noexcept
        : descriptor(fd), windowLimit(atOnce < maxWindow ? atOnce : maxWindow) {}
    explicit ElfBytes(std::string_view text) noexcept : memory(text) {}
    ElfBytes(const ElfBytes&) = delete;
    ElfBytes& operator=(const ElfBytes&) = delete;

    /// Announces the next reads, so that up to maxWindow of these bytes are read at once; they may be
    /// missing.
    void expect(std::uint64_t offset, std::uint64_t size);
    /// Copies `size` bytes from `offset`; false if the file is too short or unreadable.
    bool read(std::uint64_t offset, void* out, std::size_t size);
    /// The characters from `offset` to the next NUL; nullopt if there is none within `limit` bytes.
    std::optional<std::string> readString(std::uint64_t offset, std::size_t limit);

private:
    /// Copies the available bytes, up to `size`. Stops reading once it has `enough`.
    std::size_t readSome(std::uint64_t offset, char* out, std::size_t size, std::size_t enough) const;
    /// The cached bytes from `offset` on: at least `enough` if the file has them.
    std::string_view bytesFrom(std::uint64_t offset, std::size_t enough);

    int descriptor = -1;
    std::string_view memory;
    std::size_t windowLimit = maxWindow;
    std::array<char, maxWindow> head;  // valid up to headSize
    std::size_t headSize = 0;
    struct Window {
        std::array<char, maxWindow> bytes;  // valid up to size
        std::uint64_t start = 0;
        std::size_t size = 0;
    };
    std::array<Window, 2> windows;
    std::size_t lastUsed = 0;
    std::uint64_t expectedStart = 0;
    std::size_t expectedSize = 0;
};

/// Machines (e_machine of the ELF header) of containers.
namespace machine {
inline constexpr std::uint16_t i386 = 3;
inline constexpr std::uint16_t powerpc64 = 21;
inline constexpr std::uint16_t s390 = 22;
inline constexpr std::uint16_t arm = 40;
inline constexpr std::uint16_t x86_64 = 62;
inline constexpr std::uint16_t aarch64 = 183;
inline constexpr std::uint16_t riscv = 243;
inline constexpr std::uint16_t loongarch = 258;
}  // namespace machine

/// The symbol versions that an ELF file needs from one library, for example "libc.so.6" and "GLIBC_2.34".
/// Omits versions marked as weak by the linker: the dynamic linker does not require them.
struct VersionNeed {
    std::string file;
    std::vector<std::string> versions;
    bool operator==(const VersionNeed&) const = default;
};

/// A part of a file.
struct FileRange {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    bool operator==(const FileRange&) const = default;
};

/// The parts of an ELF file that the dynamic linker uses (System V gABI chapters 4 and 5, and the GNU version
/// sections).
struct ElfFile {
    bool is64Bit = false;
    bool isBigEndian = false;
    std::uint16_t type = 0;            ///< 2 executable, 3 shared object (or position-independent executable)
    std::uint16_t machine = 0;         ///< see namespace machine; other values are possible
    std::uint32_t flags = 0;           ///< e_flags
    bool isDynamic = false;            ///< has a dynamic section; otherwise the members below are empty
    std::vector<FileRange> constants;  ///< segments that are only read: tables and constants, but no code
    std::optional<std::string> interpreter;
    std::optional<std::string> soname;
    std::vector<std::string> needed;
    std::optional<std::string> rpath;
    std::optional<std::string> runpath;
    std::vector<VersionNeed> versionNeeds;
    std::vector<std::string> versionDefinitions;  ///< without the entry that names the file itself
};

/// How much to read: for the linker cache the header and SONAME are enough.
enum class ElfDetail { soname, everything };

/// Reads an ELF file; nullopt if it is not one (no magic number). Throws Error if it is truncated or damaged
/// in a part that is read. Time and memory are bounded for any content.
std::optional<ElfFile> readElf(ElfBytes& source, ElfDetail detail = ElfDetail::everything);
std::optional<ElfFile> readElf(int fd, ElfDetail detail = ElfDetail::everything);

}  // namespace sarus::hooks
