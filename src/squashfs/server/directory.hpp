#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "squashfs/server/image.hpp"

namespace sarus::squashfs {

struct DirectoryEntry {
    std::string name;             ///< checked: no slash, no NUL, neither "." nor "..", 1 to 255 bytes
    std::uint64_t reference = 0;  ///< of its inode
    std::uint32_t number = 0;     ///< of its inode
    mode_t format = 0;            ///< S_IFREG and the like, as the directory says
    std::uint64_t next = 0;       ///< position of the entry behind it
};

/// Reads the listing of a directory in order.
class DirectoryCursor {
public:
    DirectoryCursor(Image& image, const Inode& directory);

    /// nullopt at the end.
    std::optional<DirectoryEntry> next();
    /// Position of the next entry in the listing, from 0.
    std::uint64_t position() const noexcept { return done; }
    /// Continues at the header at this position, in the metadata block there.
    void jump(std::uint64_t position, MetadataPlace place);

private:
    MetadataCursor cursor;
    Image* image;
    std::uint64_t size;  ///< of the listing
    std::uint64_t done = 0;
    std::uint32_t left = 0;  ///< entries that share the header
    std::uint64_t block = 0;
    std::uint32_t firstNumber = 0;
};

/// Finds a name, by the directory's index if it has one. The listing is sorted.
std::optional<DirectoryEntry> findInDirectory(Image& image, const Inode& directory, std::string_view name);

}  // namespace sarus::squashfs
