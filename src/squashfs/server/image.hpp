#pragma once

#include <sqfs/super.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "squashfs/reader/file.hpp"
#include "squashfs/server/block_cache.hpp"
#include "squashfs/server/decompressor.hpp"

namespace sarus::squashfs {

constexpr std::uint32_t metadataSize = 8192;  ///< bytes of a decompressed metadata block

/// Format bits (S_IFDIR, ...) of a basic type of inodes; 0 if there is no such type.
mode_t formatOf(std::uint16_t type);

class MetadataCursor;

/// A place in the metadata: a block's position in the image and an offset in the decompressed block.
struct MetadataPlace {
    std::uint64_t block = 0;
    std::uint32_t offset = 0;
};

/// An inode as the image stores it. A number that is absent there has the value that the kernel's squashfs
/// shows.
struct Inode {
    static constexpr std::uint32_t none = 0xFFFFFFFF;

    mode_t mode = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint32_t mtime = 0;
    std::uint32_t number = 0;
    std::uint32_t links = 1;
    std::uint64_t size = 0;
    std::uint64_t sparseBytes = 0;
    std::uint32_t device = 0;
    std::uint32_t xattrs = none;
    std::uint64_t dataStart = 0;  ///< of files: in the image; of directories: of the listing's metadata block
    std::uint32_t fragment = none;
    std::uint32_t offset = 0;   ///< in the fragment, or in the listing's first metadata block
    std::uint32_t parent = 0;   ///< of directories: the parent's inode number
    std::uint32_t indexes = 0;  ///< of directories
    MetadataPlace rest;         ///< sizes of blocks, target of a symbolic link, or index of a directory
};

struct CacheSizes {
    std::size_t blocks = std::size_t{8} << 20U;    ///< bytes of decompressed contents
    std::size_t metadata = std::size_t{8} << 20U;  ///< bytes of decompressed metadata
};

/// A squashfs 4.0 image, every byte of which may be hostile. All functions are thread-safe and throw Error
/// for what is damaged. Memory is bounded by the caches, whatever the image says.
class Image {
public:
    /// `offset`: of the filesystem in the file.
    Image(UniqueFd descriptor, const std::string& name, const CacheSizes& sizes, std::uint64_t offset = 0);

    const sqfs_super_t& superblock() const noexcept { return super; }
    bool hasXattrs() const noexcept;

    /// `reference`: position and offset as in a directory and in the superblock.
    Inode inode(std::uint64_t reference);
    std::string symlinkTarget(const Inode& inode);
    /// Bytes of all names and values, as the image says.
    std::uint32_t xattrSize(const Inode& inode);
    /// Names with their prefix, and values if wanted.
    std::vector<std::pair<std::string, std::string>> xattrs(const Inode& inode, bool withValues);

    SharedBlock metadataBlock(std::uint64_t position);
    /// `sizeField`: as stored, not zero.
    SharedBlock dataBlock(std::uint64_t position, std::uint32_t sizeField);
    bool hasDataBlock(std::uint64_t position, std::uint32_t sizeField);
    /// Has the kernel read a part of the image's file, without waiting for it. Several threads that read
    /// blocks of one file look like random access to the kernel's own readahead.
    void willNeed(std::uint64_t position, std::uint64_t size) const noexcept;
    /// Frees the caches.
    void forgetBlocks();
    struct Fragment {
        std::uint64_t position = 0;
        std::uint32_t sizeField = 0;
    };
    Fragment fragment(std::uint32_t index);

private:
    Decompressor& decompressor();
    std::uint32_t id(std::uint16_t index) const;
    MetadataCursor xattrEntry(const Inode& inode);
    MetadataPlace tableEntry(std::uint64_t tableStart, std::uint64_t index, std::uint32_t entrySize);

    UniqueFd fd;
    File file;
    sqfs_super_t super{};
    std::uint64_t xattrStart = 0;  ///< of names and values
    std::uint32_t xattrCount = 0;
    std::vector<std::uint32_t> ids;
    BlockCache metadata;
    BlockCache blocks;
};

/// Reads metadata from a place on, across blocks.
class MetadataCursor {
public:
    MetadataCursor(Image& source, MetadataPlace start) : image(&source), at(start) {}

    void read(void* out, std::size_t size);
    void skip(std::size_t size);
    template <typename Number>
    Number number();
    MetadataPlace place() const noexcept { return at; }

private:
    /// The bytes at the place up to the end of its block, at least one.
    std::span<const unsigned char> available();

    Image* image;
    MetadataPlace at;
    SharedBlock block;
};

/// As an error of an operation: names the image's file.
[[noreturn]] void throwDamaged(std::string_view what);

}  // namespace sarus::squashfs
