#pragma once

#include <endian.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "image/build/image_tree.hpp"
#include "image/build/metadata_table.hpp"
#include "image/build/squashfs_file.hpp"
#include "image/build/squashfs_options.hpp"

namespace sarus::image::build {

/// Bytes of one structure of a squashfs, numbers in its byte order.
class Record {
public:
    void clear() noexcept { used = 0; }
    void add(std::uint16_t value) noexcept { put(htole16(value)); }
    void add(std::uint32_t value) noexcept { put(htole32(value)); }
    void add(std::uint64_t value) noexcept { put(htole64(value)); }
    void add(std::string_view text) noexcept {
        std::memcpy(bytes.data() + used, text.data(), text.size());
        used += text.size();
    }
    std::span<const unsigned char> content() const noexcept { return {bytes.data(), used}; }

private:
    template <typename Number>
    void put(Number value) noexcept {
        std::memcpy(bytes.data() + used, &value, sizeof value);
        used += sizeof value;
    }

    std::array<unsigned char, 320> bytes;  // a name in a directory, and what is in front of it
    std::size_t used = 0;
};

/// Writes the inode table and the directory table of a squashfs.
///
/// Inodes of directories hold the places of listings, listings those of inodes, and a place is known only when all blocks in
/// front of it are compressed. So that blocks can be compressed on several threads nevertheless, the inodes that are no
/// directories come first; then come the directories by their height, and their listings likewise: those which contain no
/// directory, those which contain none but such, and so on up to the root. With each height the places are known which the
/// next one needs, as that of a block does not depend on its own size.
class TreeWriter {
public:
    static constexpr std::uint32_t noXattrs = 0xFFFFFFFFU;

    /// What the inodes need besides the tree.
    struct Settings {
        std::uint16_t uidIndex = 0;
        std::uint16_t gidIndex = 0;
        /// The number that the squashfs has for a set of attributes, or noXattrs; always called in the same order.
        std::function<std::uint32_t(std::uint32_t set)> xattrIndex;
    };

    /// `out` and `options` must stay. `workers`: threads that compress.
    TreeWriter(SquashfsFile& out, const SquashfsOptions& options, unsigned int workers, Settings treeSettings)
        : file(out), settings(std::move(treeSettings)), allTimes(options.allTimes), compressor(out, options, workers) {}

    /// Writes both tables at the end of the file. Sets `links`, `number` and `reference` of all inodes, which must be 0.
    void write(Node& root);

    std::uint64_t inodeTableStart() const noexcept { return inodesBegin; }
    std::uint64_t directoryTableStart() const noexcept { return listingsBegin; }
    std::uint32_t inodeCount() const noexcept { return lastNumber; }
    std::uint64_t rootReference() const noexcept { return referenceOf(*directories.back().inode); }
    /// Names, without that of the root.
    std::size_t entryCount() const noexcept { return entries.size(); }
    /// Where the inodes are, in the order of their numbers.
    std::vector<std::uint64_t> references() const;

private:
    struct Entry {
        std::string_view name;
        Inode* inode;
    };

    /// A name that waits until all below its siblings is collected.
    struct Collected {
        std::string_view name;
        Node* node;
        Inode* inode;
    };

    struct Directory {
        Inode* inode;
        const Inode* parent;     ///< null for the root
        std::size_t firstEntry;  ///< its entries lie one behind the other
        std::size_t entryCount;
        std::uint32_t subdirectories;
        std::uint32_t height;  ///< 0: without subdirectories
        std::uint32_t xattrs = 0;
        MetadataPosition listing{};
        std::uint32_t listingSize = 0;
        std::uint32_t markCount = 0;
        std::size_t firstMark = 0;     ///< its marks lie one behind the other
        std::size_t endOfHeaders = 0;  ///< of which those of the directory before lie in front
    };

    /// A directory header in the listings. It is written when the block of inodes has got its place.
    struct Header {
        MetadataPosition position;
        std::uint32_t inodeBlock;
        std::uint32_t firstNumber;
        std::uint32_t count;
    };

    /// An entry of a directory's index: where in a further block of its listing the first header begins.
    struct Mark {
        std::uint32_t offset;  ///< in the listing
        std::uint32_t block;   ///< of all listings
        std::string_view name;
    };

    std::uint32_t collect(Node& directory);
    void writeObjects();
    void writeObject(Inode& inode);
    void writeRegular(const Inode& inode, std::uint32_t xattrs);
    void layOutDirectories();
    void layOutListing(Directory& directory);
    std::size_t sizeOfInode(const Directory& directory) const;
    void writeDirectories();
    void writeHeader(const Header& header);
    void writeDirectory(const Directory& directory);
    void beginInode(const Inode& inode, bool extended);
    std::uint32_t xattrIndex(const Inode& inode) const;
    std::uint64_t referenceOf(const Inode& inode) const noexcept;

    SquashfsFile& file;
    Settings settings;
    std::optional<std::uint32_t> allTimes;
    std::vector<Entry> entries;
    std::vector<Directory> directories;  ///< by height; the root is the last
    std::vector<Collected> collected;    ///< of the directories on the way to where collect() is
    std::vector<Header> headers;
    std::vector<Mark> marks;
    Record record;
    MetadataTable inodes{BlockContent::inodes};
    MetadataTable listings{BlockContent::listings};
    std::uint32_t lastNumber = 0;
    std::uint64_t inodesBegin = 0;
    std::uint64_t listingsBegin = 0;
    MetadataCompressor compressor;  // its threads end before what they work on
};

}  // namespace sarus::image::build
