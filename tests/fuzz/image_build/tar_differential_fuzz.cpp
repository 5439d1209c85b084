// Reads a tar archive with our reader and with libarchive. What both accept, both must see alike: otherwise a
// scanner and a container could see two different trees in one archive.
//
// Input: one byte of switches, then the archive. Unless the switches say otherwise the checksums of tar
// headers are corrected first.
//
// Compared: number, order, names, types, permissions, link targets and contents of the members, up to an
// error of either reader (libarchive's warnings do not count as errors). Not compared:
// - empty parts of a path: libarchive joins prefix and name of a ustar header with one slash where the prefix
// ends in one;
// - names beyond ASCII: libarchive converts them and normalises Unicode;
// - what follows an extended attribute with a NUL: some versions of libarchive end the extended header there;
// - the content of a hard link, times and device numbers.

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <clocale>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "fuzz_tar.hpp"
#include "image/build/read/tar_reader.hpp"

namespace {

using namespace sarus::image::build;

constexpr std::uint64_t mostContent =
    1U << 20U;  // of all members together; holes make archives arbitrarily long

class MemorySource final : public ByteSource {
public:
    explicit MemorySource(std::string_view bytes) : rest(bytes) {}
    std::span<const unsigned char> peek() override {
        return {reinterpret_cast<const unsigned char*>(rest.data()), rest.size()};
    }
    void consume(std::size_t count) noexcept override { rest.remove_prefix(count); }

private:
    std::string_view rest;
};

struct Member {
    TarEntry::Type type = TarEntry::Type::regular;
    std::string path;
    std::string linkTarget;
    unsigned int mode = 0;
    std::string content;
    bool binaryAttribute = false;  ///< whether an extended attribute contains a NUL
};

/// The members of an archive that our reader accepts; nullopt if it refuses the archive, or if that is too
/// large to compare.
std::optional<std::vector<Member>> readWithOurs(std::string_view archive) {
    MemorySource source(archive);
    TarReader reader(source);
    TarEntry entry;
    std::vector<Member> members;
    std::uint64_t total = 0;
    try {
        while (reader.next(entry)) {
            if (entry.size > mostContent - total) {
                return std::nullopt;
            }
            total += entry.size;
            Member member{entry.type, entry.path, "", entry.mode, "", false};
            if (entry.type == TarEntry::Type::hardLink || entry.type == TarEntry::Type::symlink) {
                member.linkTarget = entry.linkTarget;
            }
            if (entry.type == TarEntry::Type::regular) {
                reader.readContent([&](auto bytes) { member.content.append(bytes.begin(), bytes.end()); });
                if (member.content.size() != entry.size) {
                    std::abort();
                }
            }
            member.binaryAttribute =
                std::any_of(entry.xattrs.begin(), entry.xattrs.end(), [](const auto& attribute) {
                    return (attribute.first + attribute.second).find('\0') != std::string::npos;
                });
            members.push_back(std::move(member));
        }
    } catch (const sarus::Error&) {
        return std::nullopt;
    }
    return members;
}

/// libarchive's view of an archive.
class Other {
public:
    explicit Other(std::string_view bytes) {
        archive_read_support_format_tar(handle.get());
        opened = archive_read_open_memory(handle.get(), bytes.data(), bytes.size()) == ARCHIVE_OK;
    }

    bool failed() const noexcept { return failure; }

    /// nullopt at the end and at an error.
    std::optional<Member> next() {
        archive_entry* entry = nullptr;
        const int status = opened ? archive_read_next_header(handle.get(), &entry) : ARCHIVE_FATAL;
        if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
            failure = status != ARCHIVE_EOF;
            return std::nullopt;
        }
        Member member{
            typeOf(entry), text(archive_entry_pathname(entry)), "", archive_entry_perm(entry) & 07777U, "",
            false};
        if (member.type == TarEntry::Type::hardLink) {
            member.linkTarget = text(archive_entry_hardlink(entry));
        } else if (member.type == TarEntry::Type::symlink) {
            member.linkTarget = text(archive_entry_symlink(entry));
        } else if (member.type == TarEntry::Type::regular && !readContent(entry, member.content)) {
            failure = true;
            return std::nullopt;
        }
        return member;
    }

private:
    static std::string text(const char* value) { return value == nullptr ? "" : value; }

    static TarEntry::Type typeOf(archive_entry* entry) {
        if (archive_entry_hardlink(entry) != nullptr) {
            return TarEntry::Type::hardLink;
        }
        switch (archive_entry_filetype(entry)) {
            case AE_IFLNK:
                return TarEntry::Type::symlink;
            case AE_IFCHR:
                return TarEntry::Type::charDevice;
            case AE_IFBLK:
                return TarEntry::Type::blockDevice;
            case AE_IFDIR:
                return TarEntry::Type::directory;
            case AE_IFIFO:
                return TarEntry::Type::fifo;
            default:
                return TarEntry::Type::regular;
        }
    }

    /// False at an error. A file that is larger than any that we accept becomes one of another size.
    bool readContent(archive_entry* entry, std::string& content) {
        const auto size = archive_entry_size(entry);
        if (size < 0 || static_cast<std::uint64_t>(size) > mostContent) {
            content.assign(mostContent + 1, '?');
            return true;
        }
        content.assign(static_cast<std::size_t>(size), '\0');
        while (true) {
            const void* data = nullptr;
            std::size_t count = 0;
            la_int64_t offset = 0;
            const int status = archive_read_data_block(handle.get(), &data, &count, &offset);
            if (status != ARCHIVE_OK) {
                return status == ARCHIVE_EOF;
            }
            if (offset < 0 || offset > size || count > static_cast<std::size_t>(size - offset)) {
                content += "data behind the end";
                return true;
            }
            content.replace(static_cast<std::size_t>(offset), count, static_cast<const char*>(data), count);
        }
    }

    std::unique_ptr<archive, int (*)(archive*)> handle{archive_read_new(), archive_read_free};
    bool opened = false;
    bool failure = false;
};

bool isAscii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// The path with single slashes.
std::string withoutEmptyParts(std::string path) {
    path.erase(std::unique(path.begin(), path.end(), [](char a, char b) { return a == '/' && b == '/'; }),
               path.end());
    return path;
}

bool sameName(const std::string& ours, const std::string& other) {
    return !isAscii(ours) || !isAscii(other) || withoutEmptyParts(ours) == withoutEmptyParts(other);
}

bool same(const Member& ours, const Member& other) {
    return ours.type == other.type && sameName(ours.path, other.path) &&
           sameName(ours.linkTarget, other.linkTarget) && ours.mode == other.mode &&
           ours.content == other.content;
}

void print(const char* who, const Member& member) {
    std::fprintf(stderr, "%s: type %d, mode %o, '%s' -> '%s', %zu bytes\n", who,
                 static_cast<int>(member.type), member.mode, member.path.c_str(), member.linkTarget.c_str(),
                 member.content.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool utf8 =
        std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr;  // or libarchive warns about every name beyond ASCII
    if (!utf8 || size < 1) {
        return 0;
    }
    std::string archive(reinterpret_cast<const char*>(data) + 1, size - 1);
    if ((data[0] & sarus::test::fuzz::keepChecksums) == 0) {
        sarus::test::fuzz::correctChecksums(archive);
    }
    const auto members = readWithOurs(archive);
    if (!members) {
        return 0;
    }
    Other reader(archive);
    for (const auto& member : *members) {
        const auto other = reader.next();
        if (reader.failed() || member.binaryAttribute) {
            return 0;
        }
        if (!other || !same(member, *other)) {
            print("ours", member);
            print("libarchive", other.value_or(Member{}));
            std::abort();
        }
    }
    if (const auto other = reader.next()) {
        print("libarchive alone", *other);
        std::abort();
    }
    return 0;
}
