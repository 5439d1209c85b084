#include "image/build/read/squashfs_layer.hpp"

#include <sqfs/block.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

void setDevice(std::uint32_t device, TarEntry& entry) {  // in the kernel's 32-bit encoding
    entry.deviceMajor = device >> 8U & 0xFFFU;
    entry.deviceMinor = (device & 0xFFU) | (device >> 12U & ~0xFFU);
}

std::string linkTargetOf(const sqfs_inode_generic_t& inode) {
    const auto size =
        inode.base.type == SQFS_INODE_SLINK ? inode.data.slink.target_size : inode.data.slink_ext.target_size;
    return {reinterpret_cast<const char*>(inode.extra), size};
}

/// False for what no layer has.
bool setType(const sqfs_inode_generic_t& inode, TarEntry& entry) {
    using Type = TarEntry::Type;
    switch (inode.base.type) {
        case SQFS_INODE_DIR:
        case SQFS_INODE_EXT_DIR:
            entry.type = Type::directory;
            return true;
        case SQFS_INODE_FILE:
        case SQFS_INODE_EXT_FILE:
            entry.type = Type::regular;
            return true;
        case SQFS_INODE_SLINK:
        case SQFS_INODE_EXT_SLINK:
            entry.type = Type::symlink;
            entry.linkTarget = linkTargetOf(inode);
            return true;
        case SQFS_INODE_BDEV:
        case SQFS_INODE_CDEV:
            entry.type = inode.base.type == SQFS_INODE_BDEV ? Type::blockDevice : Type::charDevice;
            setDevice(inode.data.dev.devno, entry);
            return true;
        case SQFS_INODE_EXT_BDEV:
        case SQFS_INODE_EXT_CDEV:
            entry.type = inode.base.type == SQFS_INODE_EXT_BDEV ? Type::blockDevice : Type::charDevice;
            setDevice(inode.data.dev_ext.devno, entry);
            return true;
        case SQFS_INODE_FIFO:
        case SQFS_INODE_EXT_FIFO:
            entry.type = Type::fifo;
            return true;
        default:
            return false;
    }
}

}  // namespace

SquashfsLayer::SquashfsLayer(const std::string& path, std::atomic<std::uint64_t>& bytesRead)
    : counter(bytesRead), reader(path), owners(reader), content(reader) {}

bool SquashfsLayer::next(TarEntry& entry) {
    if (!hasBegun) {
        hasBegun = true;
        auto root = reader.root();
        if (root->base.type != SQFS_INODE_DIR && root->base.type != SQFS_INODE_EXT_DIR) {
            throw Error("The root of the image is not a directory");
        }
        return describe("", std::move(root), entry);
    }
    while (!levels.empty()) {
        auto& level = levels.back();
        if (level.next == level.entries.size()) {
            levels.pop_back();
            continue;
        }
        auto& found = level.entries[level.next++];
        if (describe(level.path + found.name, std::move(found.inode), entry)) {
            return true;
        }
    }
    return false;
}

bool SquashfsLayer::describe(const std::string& path, squashfs::OwnInode inode, TarEntry& entry) {
    entry = TarEntry();
    current.reset();
    if (!setType(*inode, entry)) {
        return false;
    }
    const auto owner = owners.of(*inode);
    entry.path = path.empty() ? "." : path;
    entry.mode = static_cast<std::uint16_t>(inode->base.mode & 07777U);
    entry.uid = owner.uid;
    entry.gid = owner.gid;
    entry.mtime = inode->base.mod_time;
    entry.xattrs = reader.xattrs(*inode);
    if (entry.type == TarEntry::Type::directory) {
        enter(path, *inode);
    } else if (entry.type == TarEntry::Type::regular) {
        sqfs_u64 size = 0;
        reader.file().check(sqfs_inode_get_file_size(inode.get(), &size), "Failed to read");
        entry.size = size;
        const bool isLinked = inode->base.type == SQFS_INODE_EXT_FILE && inode->data.file_ext.nlink > 1;
        if (isLinked) {
            const auto [first, isNew] = firstNames.try_emplace(inode->base.inode_number, path);
            if (!isNew) {
                entry.type = TarEntry::Type::hardLink;
                entry.linkTarget = first->second;
                return true;
            }
        }
        current = std::move(inode);
        countStored();
    }
    return true;
}

void SquashfsLayer::enter(const std::string& path, const sqfs_inode_generic_t& inode) {
    // A directory has one parent; a second path to it would be a loop or a bomb.
    if (!seenDirectories.insert(inode.base.inode_number).second) {
        throw Error(cat("The image is damaged: the directory '", printable(path), "' appears twice"));
    }
    levels.push_back({.path = path.empty() ? "" : cat(path, '/'), .entries = reader.list(inode)});
}

void SquashfsLayer::countStored() const {
    const auto blocks = sqfs_inode_get_file_block_count(current.get());
    for (std::size_t i = 0; i < blocks; ++i) {
        counter += SQFS_ON_DISK_BLOCK_SIZE(current->extra[i]);
    }
}

void SquashfsLayer::readContent(const std::function<void(std::span<const unsigned char>)>& sink) {
    static constexpr std::array<unsigned char, 1U << 16U> zeros{};
    sqfs_u64 size = 0;
    reader.file().check(sqfs_inode_get_file_size(current.get(), &size), "Failed to read");
    std::uint64_t done = 0;
    const auto fillTo = [&](std::uint64_t end) {
        while (done < end) {
            const auto count = std::min<std::uint64_t>(end - done, zeros.size());
            sink({zeros.data(), static_cast<std::size_t>(count)});
            done += count;
        }
    };
    content.read(*current, [&](std::uint64_t offset, std::span<const char> bytes) {
        fillTo(offset);
        sink({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()});
        done += bytes.size();
    });
    fillTo(size);
}

}  // namespace sarus::image::build
