#include "squashfs/server/image.hpp"

#include <fcntl.h>
#include <sqfs/error.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/text.hpp"
#include "squashfs/little_endian.hpp"

namespace sarus::squashfs {

namespace {

constexpr std::uint32_t uncompressedMetadata = 0x8000;
constexpr std::uint32_t uncompressedData = 1U << 24U;
constexpr std::uint64_t absentTable = ~std::uint64_t{0};
constexpr std::uint32_t largestTarget = 4096;  // PATH_MAX, as in the kernel
constexpr std::uint32_t largestXattr = 65536;
constexpr std::uint32_t largestXattrCount = 16384;  // their names must fit into 64 KiB

/// The types of inodes in the image; an extended one is the type + 7.
enum Type : std::uint16_t { directory = 1, regular, symlink, blockDevice, characterDevice, fifo, socket };
constexpr std::uint16_t extended = 7;

sqfs_super_t readSuperblock(File& file) {
    sqfs_super_t super{};
    file.check(sqfs_super_read(&super, file.get()), "Failed to read");
    // The library has checked that sizes and numbers of blocks fit each other.
    if (super.bytes_used > file.size()) {
        throw Error("the image is truncated");
    }
    return super;
}

}  // namespace

mode_t formatOf(std::uint16_t type) {
    constexpr std::array<mode_t, 8> formats{0,       S_IFDIR, S_IFREG, S_IFLNK,
                                            S_IFBLK, S_IFCHR, S_IFIFO, S_IFSOCK};
    return type < formats.size() ? formats.at(type) : 0;
}

void throwDamaged(std::string_view what) {
    throw Error(cat("the image is damaged: ", what));
}

Image::Image(UniqueFd descriptor, const std::string& name, const CacheSizes& sizes, std::uint64_t offset)
    : fd(std::move(descriptor)),
      file(fd.get(), name, offset),
      super(readSuperblock(file)),
      metadata(metadataSize, sizes.metadata),
      blocks(super.block_size, sizes.blocks) {
    decompressor();  // refuses an unknown compressor
    const auto place = [&](std::uint64_t index) { return tableEntry(super.id_table_start, index, 4); };
    for (std::uint32_t i = 0; i < super.id_count; ++i) {
        ids.push_back(MetadataCursor(*this, place(i)).number<std::uint32_t>());
    }
    if (hasXattrs()) {
        std::array<unsigned char, 16> header{};
        file.read(super.xattr_id_table_start, header);
        xattrStart = littleEndian<std::uint64_t>(header.data());
        xattrCount = littleEndian<std::uint32_t>(&header[8]);
    }
}

bool Image::hasXattrs() const noexcept {
    return super.xattr_id_table_start != absentTable && (super.flags & SQFS_FLAG_NO_XATTRS) == 0;
}

Decompressor& Image::decompressor() {
    // One image per process, except in tests.
    thread_local std::unique_ptr<Decompressor> own;
    thread_local const Image* owner = nullptr;
    thread_local std::uint16_t kind = 0;
    if (owner != this || kind != super.compression_id) {
        own = makeDecompressor(super, file);
        owner = this;
        kind = super.compression_id;
    }
    return *own;
}

std::uint32_t Image::id(std::uint16_t index) const {
    if (index >= ids.size()) {
        throwDamaged("an inode has an unknown owner");
    }
    return ids[index];
}

void Image::forgetBlocks() {
    metadata.clear();
    blocks.clear();
}

SharedBlock Image::metadataBlock(std::uint64_t position) {
    return metadata.get({.position = position, .sizeField = 0}, [&](Block& block) {
        if (position >= super.bytes_used || super.bytes_used - position < 3) {
            throwDamaged("a position is outside of it");
        }
        std::array<unsigned char, 2 + metadataSize> raw;  // NOLINT: filled below
        const auto length = std::min<std::uint64_t>(raw.size(), super.bytes_used - position);
        file.read(position, std::span(raw).first(length));
        const auto header = littleEndian<std::uint16_t>(raw.data());
        const std::uint32_t size = header & (uncompressedMetadata - 1U);
        if (size == 0 || size > metadataSize || size + 2 > length) {
            throwDamaged("a metadata block has an impossible size");
        }
        const auto content = std::span<const unsigned char>(raw).subspan(2, size);
        if ((header & uncompressedMetadata) != 0) {
            std::copy(content.begin(), content.end(), block.bytes.get());
            block.size = size;
        } else {
            block.size = static_cast<std::uint32_t>(
                decompressor().decompress(content, {block.bytes.get(), metadataSize}));
        }
        if (block.size == 0) {
            throwDamaged("a metadata block is empty");
        }
        block.next = position + 2 + size;
    });
}

SharedBlock Image::dataBlock(std::uint64_t position, std::uint32_t sizeField) {
    return blocks.get({.position = position, .sizeField = sizeField}, [&](Block& block) {
        const std::uint32_t size = sizeField & (uncompressedData - 1U);
        if (size == 0 || size > super.block_size || sizeField >= 2 * uncompressedData ||
            position >= super.bytes_used || super.bytes_used - position < size) {
            throwDamaged("a block has an impossible size or position");
        }
        if ((sizeField & uncompressedData) != 0) {
            file.read(position, {block.bytes.get(), size});
            block.size = size;
            return;
        }
        thread_local std::vector<unsigned char> raw;
        raw.resize(std::max<std::size_t>(raw.size(), super.block_size));
        file.read(position, std::span(raw).first(size));
        block.size = static_cast<std::uint32_t>(
            decompressor().decompress(std::span(raw).first(size), {block.bytes.get(), super.block_size}));
    });
}

bool Image::hasDataBlock(std::uint64_t position, std::uint32_t sizeField) {
    return blocks.contains({.position = position, .sizeField = sizeField});
}

void Image::willNeed(std::uint64_t position, std::uint64_t size) const noexcept {
    // Only advice: the result does not matter.
    ::posix_fadvise(fd.get(), static_cast<off_t>(file.offset() + position), static_cast<off_t>(size),
                    POSIX_FADV_WILLNEED);
}

MetadataPlace Image::tableEntry(std::uint64_t tableStart, std::uint64_t index, std::uint32_t entrySize) {
    const auto perBlock = metadataSize / entrySize;
    std::array<unsigned char, 8> pointer{};
    const auto where = tableStart + index / perBlock * 8;
    if (tableStart > super.bytes_used || where + 8 > super.bytes_used) {
        throwDamaged("a table is outside of it");
    }
    file.read(where, pointer);
    return {.block = littleEndian<std::uint64_t>(pointer.data()),
            .offset = static_cast<std::uint32_t>(index % perBlock) * entrySize};
}

Image::Fragment Image::fragment(std::uint32_t index) {
    if (index >= super.fragment_entry_count) {
        throwDamaged("a file has an unknown fragment");
    }
    MetadataCursor cursor(*this, tableEntry(super.fragment_table_start, index, 16));
    const auto position = cursor.number<std::uint64_t>();
    return {.position = position, .sizeField = cursor.number<std::uint32_t>()};
}

Inode Image::inode(std::uint64_t reference) {
    MetadataCursor cursor(*this, {.block = super.inode_table_start + (reference >> 16U),
                                  .offset = static_cast<std::uint32_t>(reference & 0xFFFFU)});
    Inode inode;
    const auto type = cursor.number<std::uint16_t>();
    if (type == 0 || type > 2 * extended) {
        throwDamaged("an inode has an unknown type");
    }
    inode.mode =
        formatOf(type > extended ? type - extended : type) | (cursor.number<std::uint16_t>() & 07777U);
    inode.uid = id(cursor.number<std::uint16_t>());
    inode.gid = id(cursor.number<std::uint16_t>());
    inode.mtime = cursor.number<std::uint32_t>();
    inode.number = cursor.number<std::uint32_t>();
    switch (type) {
        case directory:
            inode.dataStart = super.directory_table_start + cursor.number<std::uint32_t>();
            inode.links = cursor.number<std::uint32_t>();
            inode.size = cursor.number<std::uint16_t>();
            inode.offset = cursor.number<std::uint16_t>();
            inode.parent = cursor.number<std::uint32_t>();
            break;
        case directory + extended:
            inode.links = cursor.number<std::uint32_t>();
            inode.size = cursor.number<std::uint32_t>();
            inode.dataStart = super.directory_table_start + cursor.number<std::uint32_t>();
            inode.parent = cursor.number<std::uint32_t>();
            inode.indexes = cursor.number<std::uint16_t>();
            inode.offset = cursor.number<std::uint16_t>();
            inode.xattrs = cursor.number<std::uint32_t>();
            break;
        case regular:
            inode.dataStart = cursor.number<std::uint32_t>();
            inode.fragment = cursor.number<std::uint32_t>();
            inode.offset = cursor.number<std::uint32_t>();
            inode.size = cursor.number<std::uint32_t>();
            break;
        case regular + extended:
            inode.dataStart = cursor.number<std::uint64_t>();
            inode.size = cursor.number<std::uint64_t>();
            inode.sparseBytes = cursor.number<std::uint64_t>();
            inode.links = cursor.number<std::uint32_t>();
            inode.fragment = cursor.number<std::uint32_t>();
            inode.offset = cursor.number<std::uint32_t>();
            inode.xattrs = cursor.number<std::uint32_t>();
            break;
        case symlink:
        case symlink + extended:
            inode.links = cursor.number<std::uint32_t>();
            inode.size = cursor.number<std::uint32_t>();
            inode.rest = cursor.place();
            if (inode.size > largestTarget) {
                throwDamaged("a symbolic link is too long");
            }
            if (type == symlink + extended) {
                cursor.skip(inode.size);
                inode.xattrs = cursor.number<std::uint32_t>();
            }
            return inode;
        default:
            inode.links = cursor.number<std::uint32_t>();
            if (S_ISBLK(inode.mode) || S_ISCHR(inode.mode)) {
                inode.device = cursor.number<std::uint32_t>();
            }
            if (type > extended) {
                inode.xattrs = cursor.number<std::uint32_t>();
            }
    }
    if (static_cast<std::int64_t>(inode.size) < 0) {
        throwDamaged("a file is too large");
    }
    inode.rest = cursor.place();
    return inode;
}

std::string Image::symlinkTarget(const Inode& inode) {
    if (!S_ISLNK(inode.mode)) {
        throwDamaged("an inode is no symbolic link");
    }
    std::string target(inode.size, '\0');
    MetadataCursor(*this, inode.rest).read(target.data(), target.size());
    return target;
}

MetadataCursor Image::xattrEntry(const Inode& inode) {
    if (inode.xattrs >= xattrCount) {
        throwDamaged("an inode has unknown attributes");
    }
    return {*this, tableEntry(super.xattr_id_table_start + 16, inode.xattrs, 16)};
}

std::uint32_t Image::xattrSize(const Inode& inode) {
    if (inode.xattrs == Inode::none || !hasXattrs()) {
        return 0;
    }
    auto entry = xattrEntry(inode);
    entry.skip(12);
    return entry.number<std::uint32_t>();
}

std::vector<std::pair<std::string, std::string>> Image::xattrs(const Inode& inode, bool withValues) {
    std::vector<std::pair<std::string, std::string>> found;
    if (inode.xattrs == Inode::none || !hasXattrs()) {
        return found;
    }
    auto entry = xattrEntry(inode);
    const auto placeOf = [&](std::uint64_t reference) {
        return MetadataPlace{.block = xattrStart + (reference >> 16U),
                             .offset = static_cast<std::uint32_t>(reference & 0xFFFFU)};
    };
    const auto reference = entry.number<std::uint64_t>();
    const auto count = entry.number<std::uint32_t>();
    if (count > largestXattrCount) {
        throwDamaged("an inode has too many attributes");
    }
    MetadataCursor cursor(*this, placeOf(reference));
    const auto readValue = [&](MetadataCursor& from) {
        const auto size = from.number<std::uint32_t>();
        if (size > largestXattr) {
            throwDamaged("an attribute is too large");
        }
        std::string value(size, '\0');
        from.read(value.data(), size);
        return value;
    };
    std::size_t total = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        constexpr std::array<std::string_view, 3> prefixes{"user.", "trusted.", "security."};
        constexpr std::uint16_t elsewhere = 0x100;
        const auto type = cursor.number<std::uint16_t>();
        const auto nameSize = cursor.number<std::uint16_t>();
        std::string name(nameSize, '\0');
        cursor.read(name.data(), name.size());
        const auto prefix = type & 0xFFU;
        std::string value;
        if (withValues && (type & elsewhere) != 0) {
            cursor.skip(4);
            MetadataCursor other(*this, placeOf(cursor.number<std::uint64_t>()));
            value = readValue(other);
        } else if (withValues) {
            value = readValue(cursor);
        } else {
            cursor.skip(cursor.number<std::uint32_t>());
        }
        total += name.size() + value.size();
        if (nameSize > 255 || total > std::size_t{64} * largestXattr) {
            throwDamaged("an attribute is too large");
        }
        if (prefix < prefixes.size()) {  // the kernel ignores others, too
            found.emplace_back(cat(prefixes.at(prefix), name), std::move(value));
        }
    }
    return found;
}

std::span<const unsigned char> MetadataCursor::available() {
    for (;;) {
        if (!block) {
            block = image->metadataBlock(at.block);
        }
        if (at.offset < block->size) {
            return block->content().subspan(at.offset);
        }
        at = {.block = block->next, .offset = at.offset - block->size};
        block.reset();
    }
}

void MetadataCursor::read(void* out, std::size_t size) {
    for (auto* next = static_cast<unsigned char*>(out); size > 0;) {
        const auto bytes = available();
        const auto count = std::min(size, bytes.size());
        std::copy_n(bytes.begin(), count, next);
        next += count;
        at.offset += static_cast<std::uint32_t>(count);
        size -= count;
    }
}

void MetadataCursor::skip(std::size_t size) {
    while (size > 0) {
        const auto count = std::min(size, available().size());
        at.offset += static_cast<std::uint32_t>(count);
        size -= count;
    }
}

template <typename Number>
Number MetadataCursor::number() {
    std::array<unsigned char, sizeof(Number)> bytes{};
    read(bytes.data(), bytes.size());
    return littleEndian<Number>(bytes.data());
}
template std::uint16_t MetadataCursor::number();
template std::int16_t MetadataCursor::number();
template std::uint32_t MetadataCursor::number();
template std::uint64_t MetadataCursor::number();

}  // namespace sarus::squashfs
