#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::hooks {

/// Random access to the bytes of an open file (not owned) or of a text in memory, with the beginning of the file, once it was
/// asked for, and a small window of what else was read last. Files are read with pread(2) and never mapped, so that a file which
/// is truncated meanwhile cannot end the program.
class ByteSource {
public:
    static constexpr std::size_t kWindow = 4096;

    /// `atOnce`: how much is read at once behind the beginning, at most kWindow.
    explicit ByteSource(int fd, std::size_t atOnce = kWindow) noexcept
        : descriptor(fd), windowLimit(atOnce < kWindow ? atOnce : kWindow) {}
    explicit ByteSource(std::string_view text) noexcept : memory(text) {}
    ByteSource(const ByteSource&) = delete;
    ByteSource& operator=(const ByteSource&) = delete;

    /// What will be read next, up to kWindow bytes of which are then read at once; they need not be there.
    void expect(std::uint64_t offset, std::uint64_t size);
    /// Copies `size` bytes from `offset`; false if the file has not that many there, or cannot be read.
    bool read(std::uint64_t offset, void* out, std::size_t size);
    /// The characters from `offset` to the next NUL; nullopt if there is none within `limit` bytes.
    std::optional<std::string> readString(std::uint64_t offset, std::size_t limit);

private:
    /// Copies what there is, up to `size` bytes; does not ask again once it has `enough`.
    std::size_t readSome(std::uint64_t offset, char* out, std::size_t size, std::size_t enough) const;
    /// What is at hand from `offset` on, of which at least `enough` bytes if the file has them.
    std::string_view bytesFrom(std::uint64_t offset, std::size_t enough);

    int descriptor = -1;
    std::string_view memory;
    std::size_t windowLimit = kWindow;
    std::array<char, kWindow> head;  // filled as far as headSize says
    std::size_t headSize = 0;
    std::array<char, kWindow> window;  // filled as far as windowSize says
    std::uint64_t windowStart = 0;
    std::size_t windowSize = 0;
    std::uint64_t expectedStart = 0;
    std::size_t expectedSize = 0;
};

/// Machines (e_machine of the ELF header) which containers are built for.
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

/// The symbol versions that an ELF file needs of one library, for example "libc.so.6" and "GLIBC_2.34".
/// Versions which the linker marked as weak are left out: the dynamic linker does not insist on them.
struct VersionNeed {
    std::string file;
    std::vector<std::string> versions;
    bool operator==(const VersionNeed&) const = default;
};

/// What the dynamic linker looks at in an ELF file (System V gABI chapters 4 and 5, and the GNU version sections).
struct ElfFile {
    bool is64Bit = false;
    bool isBigEndian = false;
    std::uint16_t type = 0;     ///< 2 executable, 3 shared object (or position-independent executable)
    std::uint16_t machine = 0;  ///< see namespace machine; may be another one
    std::uint32_t flags = 0;    ///< e_flags
    bool isDynamic = false;     ///< has a dynamic section; otherwise what follows is empty
    std::optional<std::string> interpreter;
    std::optional<std::string> soname;
    std::vector<std::string> needed;
    std::optional<std::string> rpath;
    std::optional<std::string> runpath;
    std::vector<VersionNeed> versionNeeds;
    std::vector<std::string> versionDefinitions;  ///< without the entry which names the file itself
};

/// How much is read: for the linker cache the header and SONAME are enough.
enum class ElfDetail { soname, everything };

/// Reads an ELF file; nullopt if it is no ELF file at all (no magic number). Throws Error if it is one but is truncated or
/// damaged where we have to look. Time and memory are bounded whatever the file says.
std::optional<ElfFile> readElf(ByteSource& source, ElfDetail detail = ElfDetail::everything);
std::optional<ElfFile> readElf(int fd, ElfDetail detail = ElfDetail::everything);

}  // namespace sarus::hooks
