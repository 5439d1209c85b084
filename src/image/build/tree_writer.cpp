#include "image/build/tree_writer.hpp"

#include <sqfs/dir.h>
#include <sqfs/inode.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace sarus::image::build {

namespace {

constexpr std::uint32_t noFragment = 0xFFFFFFFFU;
constexpr std::size_t mostInHeader = SQFS_MAX_DIR_ENT;
constexpr std::size_t headerSize = 12;
constexpr std::size_t entrySize = 8;  // without the name
constexpr std::size_t markSize = 12;  // without the name
constexpr std::size_t directoryInodeSize = 32;
constexpr std::size_t extendedDirectoryInodeSize = 40;
constexpr std::uint32_t mostMarks = 0xFFFF;
constexpr std::uint32_t dotNames = 3;  // by which squashfs gives the size of a listing too large
constexpr std::uint16_t extendedTypes = SQFS_INODE_EXT_DIR - SQFS_INODE_DIR;
constexpr std::size_t ahead = 8;  // entries, for which the processor should fetch memory

std::uint16_t typeNumber(Inode::Type type) {
    switch (type) {
        case Inode::Type::regular:
            return SQFS_INODE_FILE;
        case Inode::Type::symlink:
            return SQFS_INODE_SLINK;
        case Inode::Type::charDevice:
            return SQFS_INODE_CDEV;
        case Inode::Type::blockDevice:
            return SQFS_INODE_BDEV;
        case Inode::Type::fifo:
            return SQFS_INODE_FIFO;
        case Inode::Type::directory:
            break;
    }
    return SQFS_INODE_DIR;
}

std::span<const unsigned char> bytesOf(std::string_view text) {
    return {reinterpret_cast<const unsigned char*>(text.data()), text.size()};
}

std::uint64_t packed(MetadataPosition position) {
    return std::uint64_t{position.block} << 16U | position.offset;
}

/// Of an inode whose `reference` was made by packed().
MetadataPosition positionOf(const Inode& inode) {
    return {static_cast<std::uint32_t>(inode.reference >> 16U), static_cast<std::uint16_t>(inode.reference)};
}

}  // namespace

void TreeWriter::write(Node& root) {
    collect(root);
    std::stable_sort(directories.begin(), directories.end(),
                     [](const Directory& one, const Directory& other) { return one.height < other.height; });
    inodesBegin = file.size();
    writeObjects();
    layOutDirectories();
    writeDirectories();
    inodes.write(file);
    listingsBegin = file.size();
    listings.write(file);
}

/// Puts the tree into lists, in which it is known what comes next: the processor waits for memory most of the time otherwise.
/// Returns the height of the directory.
std::uint32_t TreeWriter::collect(Node& directory) {
    const auto begin = collected.size();
    for (auto& [name, node] : directory.children) {
        __builtin_prefetch(node.get());
        collected.push_back({name, node.get(), nullptr});
    }
    const auto end = collected.size();
    for (auto i = begin; i < end; ++i) {
        collected[i].inode = collected[i].node->inode;
        __builtin_prefetch(collected[i].inode, 1);
    }
    std::uint32_t subdirectories = 0;
    std::uint32_t height = 0;
    for (auto i = begin; i < end; ++i) {
        ++collected[i].inode->links;
        if (collected[i].inode->type == Inode::Type::directory) {
            ++subdirectories;
            height = std::max(height, collect(*collected[i].node) + 1);
        }
    }
    directories.push_back({directory.inode, directory.parent == &directory ? nullptr : directory.parent->inode, entries.size(),
                           end - begin, subdirectories, height});
    for (auto i = begin; i < end; ++i) {
        entries.push_back({collected[i].name, collected[i].inode});
    }
    collected.resize(begin);
    return height;
}

std::uint32_t TreeWriter::xattrIndex(const Inode& inode) const {
    return inode.xattrs == 0 ? noXattrs : settings.xattrIndex(inode.xattrs);
}

void TreeWriter::beginInode(const Inode& inode, bool extended) {
    record.clear();
    record.add(static_cast<std::uint16_t>(typeNumber(inode.type) + (extended ? extendedTypes : 0)));
    record.add(inode.mode);
    record.add(settings.uidIndex);
    record.add(settings.gidIndex);
    record.add(allTimes.value_or(inode.mtime));
    record.add(inode.number);
}

/// Numbers all inodes, those of a directory one after the other, as directory entries hold differences of numbers. Writes those
/// that are no directories.
void TreeWriter::writeObjects() {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (i + 2 * ahead < entries.size()) {
            __builtin_prefetch(entries[i + 2 * ahead].inode, 1);
            __builtin_prefetch(&entries[i + 2 * ahead].inode->data, 1);
            __builtin_prefetch(entries[i + ahead].inode->data);
        }
        Inode& inode = *entries[i].inode;
        if (inode.number != 0) {
            continue;
        }
        inode.number = ++lastNumber;
        if (inode.type != Inode::Type::directory) {
            inode.reference = packed(inodes.end());
            writeObject(inode);
            inodes.compressUpTo(inodes.end().block, compressor);
        }
    }
    directories.back().inode->number = ++lastNumber;
}

void TreeWriter::writeObject(Inode& inode) {
    const auto xattrs = xattrIndex(inode);
    if (inode.type == Inode::Type::regular) {
        writeRegular(inode, xattrs);
        return;
    }
    beginInode(inode, xattrs != noXattrs);
    record.add(inode.links);
    if (inode.type == Inode::Type::symlink) {
        record.add(static_cast<std::uint32_t>(inode.target.size()));
        inodes.append(record.content());
        inodes.append(bytesOf(inode.target));
        record.clear();
    } else if (inode.type != Inode::Type::fifo) {
        record.add(inode.device);
    }
    if (xattrs != noXattrs) {
        record.add(xattrs);
    }
    inodes.append(record.content());
}

void TreeWriter::writeRegular(const Inode& inode, std::uint32_t xattrs) {
    static constexpr sqfs_inode_file_t empty{0, noFragment, noFragment, 0};
    const auto* data = inode.data;
    const auto& basic = data != nullptr ? data->data.file : empty;
    if (data != nullptr && data->base.type == SQFS_INODE_EXT_FILE) {
        const auto& large = data->data.file_ext;
        beginInode(inode, true);
        record.add(large.blocks_start);
        record.add(large.file_size);
        record.add(large.sparse);
        record.add(inode.links);
        record.add(large.fragment_idx);
        record.add(large.fragment_offset);
        record.add(xattrs);
    } else if (inode.links > 1 || xattrs != noXattrs) {
        beginInode(inode, true);
        record.add(std::uint64_t{basic.blocks_start});
        record.add(std::uint64_t{basic.file_size});
        record.add(std::uint64_t{0});  // bytes in holes
        record.add(inode.links);
        record.add(basic.fragment_index);
        record.add(basic.fragment_offset);
        record.add(xattrs);
    } else {
        beginInode(inode, false);
        record.add(basic.blocks_start);
        record.add(basic.fragment_index);
        record.add(basic.fragment_offset);
        record.add(basic.file_size);
    }
    inodes.append(record.content());
    const auto blocks = data != nullptr ? sqfs_inode_get_file_block_count(data) : 0;
    for (std::size_t i = 0; i < blocks; ++i) {
        record.clear();
        record.add(data->extra[i]);
        inodes.append(record.content());
    }
}

/// Finds the places of listings and inodes of directories within their tables, and writes the entries, but not the headers.
void TreeWriter::layOutDirectories() {
    for (auto& directory : directories) {
        directory.xattrs = xattrIndex(*directory.inode);
        layOutListing(directory);
        directory.inode->reference = packed(inodes.reserve(sizeOfInode(directory)));
    }
}

void TreeWriter::layOutListing(Directory& directory) {
    directory.firstMark = marks.size();
    auto lastBlock = listings.end().block;
    std::uint64_t size = 0;
    if (directory.entryCount > 0) {
        directory.listing = listings.end();
    }
    Header header{};
    for (auto i = directory.firstEntry; i < directory.firstEntry + directory.entryCount; ++i) {
        if (i + ahead < entries.size()) {
            __builtin_prefetch(entries[i + ahead].inode);
            __builtin_prefetch(entries[i + ahead].name.data());
        }
        const auto& [name, inode] = entries[i];
        const auto inodePosition = positionOf(*inode);
        const auto here = listings.end();
        const auto difference = std::int64_t{inode->number} - header.firstNumber;
        // A header begins in each block, so that the index can lead there.
        if (header.count == 0 || header.count == mostInHeader || header.inodeBlock != inodePosition.block ||
            difference != static_cast<std::int16_t>(difference) || header.position.block != here.block) {
            if (header.count > 0) {
                headers.push_back(header);
            }
            header = {listings.reserve(headerSize), inodePosition.block, inode->number, 0};
            if (here.block != lastBlock) {
                marks.push_back({static_cast<std::uint32_t>(size), here.block, name});
                lastBlock = here.block;
            }
            size += headerSize;
        }
        record.clear();
        record.add(inodePosition.offset);
        record.add(static_cast<std::uint16_t>(inode->number - header.firstNumber));
        record.add(typeNumber(inode->type));
        record.add(static_cast<std::uint16_t>(name.size() - 1));
        record.add(name);
        listings.append(record.content());
        size += entrySize + name.size();
        ++header.count;
        if (size > std::numeric_limits<std::uint32_t>::max() - dotNames) {
            throw Error("The image has too many names in one directory for a squashfs, which can hold 4 GiB of them");
        }
    }
    if (header.count > 0) {
        headers.push_back(header);
    }
    directory.endOfHeaders = headers.size();
    directory.listingSize = static_cast<std::uint32_t>(size);
    if (size <= MetadataBlock::capacity) {
        marks.resize(directory.firstMark);  // it would not be found faster
    }
    directory.markCount = static_cast<std::uint32_t>(std::min<std::size_t>(marks.size() - directory.firstMark, mostMarks));
}

std::size_t TreeWriter::sizeOfInode(const Directory& directory) const {
    if (directory.xattrs == noXattrs && directory.markCount == 0) {
        return directoryInodeSize;
    }
    auto size = extendedDirectoryInodeSize;
    for (std::uint32_t i = 0; i < directory.markCount; ++i) {
        size += markSize + marks[directory.firstMark + i].name.size();
    }
    return size;
}

void TreeWriter::writeDirectories() {
    auto header = headers.cbegin();
    for (auto first = directories.cbegin(); first != directories.cend();) {
        const auto next =
            std::find_if(first, directories.cend(), [&](const auto& other) { return other.height > first->height; });
        compressor.finish();
        inodes.locate();
        const auto endOfHeaders = headers.cbegin() + static_cast<std::ptrdiff_t>(std::prev(next)->endOfHeaders);
        std::for_each(header, endOfHeaders, [&](const auto& each) { writeHeader(each); });
        header = endOfHeaders;
        if (next == directories.cend()) {
            listings.compressAll(compressor);
        } else {
            listings.compressUpTo(next->listing.block, compressor);
        }
        inodes.write(file);
        compressor.finish();
        listings.locate();
        std::for_each(first, next, [&](const auto& directory) { writeDirectory(directory); });
        if (next == directories.cend()) {
            inodes.compressAll(compressor);
        } else {
            inodes.compressUpTo(positionOf(*next->inode).block, compressor);
        }
        first = next;
    }
    compressor.finish();
    inodes.locate();
}

void TreeWriter::writeHeader(const Header& header) {
    record.clear();
    record.add(header.count - 1);
    record.add(inodes.start(header.inodeBlock));
    record.add(header.firstNumber);
    listings.put(header.position, record.content());
}

void TreeWriter::writeDirectory(const Directory& directory) {
    const bool extended = directory.xattrs != noXattrs || directory.markCount > 0;
    const auto listingStart = directory.entryCount > 0 ? listings.start(directory.listing.block) : 0;
    const auto parentNumber = directory.parent != nullptr ? directory.parent->number : lastNumber + 1;
    const auto links = directory.subdirectories + 2;
    beginInode(*directory.inode, extended);
    if (extended) {
        record.add(links);
        record.add(directory.listingSize + dotNames);
        record.add(listingStart);
        record.add(parentNumber);
        record.add(static_cast<std::uint16_t>(directory.markCount));
        record.add(directory.listing.offset);
        record.add(directory.xattrs);
    } else {
        record.add(listingStart);
        record.add(links);
        record.add(static_cast<std::uint16_t>(directory.listingSize + dotNames));
        record.add(directory.listing.offset);
        record.add(parentNumber);
    }
    auto position = inodes.put(positionOf(*directory.inode), record.content());
    for (std::uint32_t i = 0; i < directory.markCount; ++i) {
        const auto& mark = marks[directory.firstMark + i];
        record.clear();
        record.add(mark.offset);
        record.add(listings.start(mark.block));
        record.add(static_cast<std::uint32_t>(mark.name.size() - 1));
        record.add(mark.name);
        position = inodes.put(position, record.content());
    }
}

std::uint64_t TreeWriter::referenceOf(const Inode& inode) const noexcept {
    const auto position = positionOf(inode);
    return std::uint64_t{inodes.start(position.block)} << 16U | position.offset;
}

std::vector<std::uint64_t> TreeWriter::references() const {
    std::vector<std::uint64_t> all(lastNumber);
    for (const auto& entry : entries) {
        all[entry.inode->number - 1] = referenceOf(*entry.inode);
    }
    all.back() = rootReference();
    return all;
}

}  // namespace sarus::image::build
