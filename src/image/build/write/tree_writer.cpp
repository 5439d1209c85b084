#include "image/build/write/tree_writer.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace sarus::image::build {

namespace {

std::uint16_t fileType(Inode::Type type) {
    switch (type) {
        case Inode::Type::regular:
            return SQFS_INODE_MODE_REG;
        case Inode::Type::symlink:
            return SQFS_INODE_MODE_LNK;
        case Inode::Type::charDevice:
            return SQFS_INODE_MODE_CHR;
        case Inode::Type::blockDevice:
            return SQFS_INODE_MODE_BLK;
        case Inode::Type::fifo:
            return SQFS_INODE_MODE_FIFO;
        case Inode::Type::directory:
            break;
    }
    return SQFS_INODE_MODE_DIR;
}

std::uint16_t fullMode(const Inode& inode) {
    return static_cast<std::uint16_t>(fileType(inode.type) | inode.mode);
}

/// A libsquashfs inode followed by `payload` bytes; everything else is zero.
squashfs::OwnInode newInode(std::uint16_t type, std::size_t payload) {
    squashfs::OwnInode inode(
        static_cast<sqfs_inode_generic_t*>(std::calloc(1, sizeof(sqfs_inode_generic_t) + payload)));
    if (!inode) {
        throw Error("Failed to write the squashfs: out of memory");
    }
    inode->base.type = type;
    return inode;
}

}  // namespace

TreeWriter::TreeWriter(squashfs::File& out, sqfs_compressor_t& tableCompressor,
                       const SquashfsOptions& squashfsOptions, Settings treeSettings)
    : file(out),
      compressor(tableCompressor),
      options(squashfsOptions),
      settings(std::move(treeSettings)),
      inodes(squashfs::own(sqfs_meta_writer_create(file.get(), &compressor, 0))),
      listings(
          squashfs::own(sqfs_meta_writer_create(file.get(), &compressor, SQFS_META_WRITER_KEEP_IN_MEMORY))),
      directories(squashfs::own(sqfs_dir_writer_create(
          listings.get(), options.exportable ? SQFS_DIR_WRITER_CREATE_EXPORT_TABLE : 0))) {}

void TreeWriter::write(Node& root, sqfs_super_t& super) {
    super.inode_table_start = file.size();
    number(root);
    root.inode->number = ++lastNumber;
    const auto listing = writeListing(root);
    writeInode(*root.inode, *listing);
    check(sqfs_meta_writer_flush(inodes.get()));
    check(sqfs_meta_writer_flush(listings.get()));
    super.root_inode_ref = root.inode->reference;
    super.inode_count = lastNumber;
    super.directory_table_start = file.size();
    check(sqfs_meta_write_write_to_file(listings.get()));
}

void TreeWriter::writeExportTable(sqfs_super_t& super) {
    check(sqfs_dir_writer_write_export_table(directories.get(), file.get(), &compressor, lastNumber,
                                             super.root_inode_ref, &super));
}

/// Numbers the objects of a directory consecutively, because directory entries store differences of numbers.
void TreeWriter::number(Node& directory) {
    for (auto& [name, node] : directory.children) {
        if (node->isDirectory()) {
            number(*node);
        }
    }
    for (auto& [name, node] : directory.children) {
        ++names;
        ++node->inode->links;
        if (node->inode->number == 0) {
            node->inode->number = ++lastNumber;
        }
    }
}

/// Writes everything below a directory, and its listing. Returns the inode that describes the listing: the
/// caller writes it together with its siblings, so the inodes of a directory lie close to each other.
squashfs::OwnInode TreeWriter::writeListing(Node& directory) {
    std::vector<squashfs::OwnInode> subdirectories;
    for (auto& [name, node] : directory.children) {
        if (node->isDirectory()) {
            subdirectories.push_back(writeListing(*node));
        }
    }
    auto subdirectory = subdirectories.begin();
    for (auto& [name, node] : directory.children) {
        if (node->isDirectory()) {
            writeInode(*node->inode, **subdirectory++);
        } else if (node->inode->reference == Inode::notWritten) {
            writeObject(*node->inode);
        }
    }
    check(sqfs_dir_writer_begin(directories.get(), 0));
    std::string entryName;
    for (auto& [name, node] : directory.children) {
        entryName = name;
        const Inode& inode = *node->inode;
        check(sqfs_dir_writer_add_entry(directories.get(), entryName.c_str(), inode.number, inode.reference,
                                        fullMode(inode)));
    }
    check(sqfs_dir_writer_end(directories.get()));
    const bool isRoot = directory.parent == &directory;
    const auto parentNumber = isRoot ? lastNumber + 1 : directory.parent->inode->number;
    squashfs::OwnInode inode(sqfs_dir_writer_create_inode(directories.get(), subdirectories.size(),
                                                          xattrIndex(*directory.inode), parentNumber));
    if (!inode) {
        throw Error("Failed to write the squashfs: out of memory");
    }
    (inode->base.type == SQFS_INODE_DIR ? inode->data.dir.nlink : inode->data.dir_ext.nlink) =
        static_cast<sqfs_u32>(subdirectories.size() + 2);
    return inode;
}

squashfs::OwnInode TreeWriter::regular(const Inode& inode) const {
    static const FileContent empty;
    const auto& content = inode.content ? *inode.content : empty;
    const auto payload = content.blocks.size() * sizeof(std::uint32_t);
    auto made = newInode(SQFS_INODE_FILE, payload);
    made->payload_bytes_available = static_cast<sqfs_u32>(payload);
    made->payload_bytes_used = made->payload_bytes_available;
    std::copy(content.blocks.begin(), content.blocks.end(), made->extra);
    check(sqfs_inode_set_file_size(made.get(), inode.size));
    check(sqfs_inode_set_file_block_start(made.get(), content.start));
    check(sqfs_inode_set_frag_location(made.get(), content.fragment, content.fragmentOffset));
    if (content.holes > 0 || inode.links > 1) {
        check(sqfs_inode_make_extended(made.get()));
        made->data.file_ext.sparse = content.holes;
        made->data.file_ext.nlink = inode.links;
    }
    return made;
}

squashfs::OwnInode TreeWriter::described(const Inode& inode) const {
    switch (inode.type) {
        case Inode::Type::regular:
            return regular(inode);
        case Inode::Type::symlink: {
            auto made = newInode(SQFS_INODE_SLINK, inode.target.size());
            made->data.slink.nlink = inode.links;
            made->data.slink.target_size = static_cast<sqfs_u32>(inode.target.size());
            std::memcpy(made->extra, inode.target.data(), inode.target.size());
            return made;
        }
        case Inode::Type::charDevice:
        case Inode::Type::blockDevice: {
            auto made =
                newInode(inode.type == Inode::Type::charDevice ? SQFS_INODE_CDEV : SQFS_INODE_BDEV, 0);
            made->data.dev.nlink = inode.links;
            made->data.dev.devno = inode.device;
            return made;
        }
        case Inode::Type::fifo:
        case Inode::Type::directory:
            break;
    }
    auto made = newInode(SQFS_INODE_FIFO, 0);
    made->data.ipc.nlink = inode.links;
    return made;
}

void TreeWriter::writeObject(Inode& inode) {
    const auto made = described(inode);
    if (const auto index = xattrIndex(inode); index != noXattrs) {
        check(sqfs_inode_make_extended(made.get()));
        check(sqfs_inode_set_xattr_index(made.get(), index));
    }
    writeInode(inode, *made);
}

void TreeWriter::writeInode(Inode& inode, sqfs_inode_generic_t& data) {
    data.base.mode = fullMode(inode);
    data.base.uid_idx = settings.owners.userSlot(inode.uid);
    data.base.gid_idx = settings.owners.groupSlot(inode.gid);
    data.base.mod_time = options.allTimes.value_or(inode.mtime);
    data.base.inode_number = inode.number;
    sqfs_u64 block = 0;
    sqfs_u32 offset = 0;
    sqfs_meta_writer_get_position(inodes.get(), &block, &offset);
    if (block > std::numeric_limits<std::uint32_t>::max()) {
        throw Error(
            "The image has too many files for a squashfs: one of its tables would be larger than 4 GiB");
    }
    inode.reference = block << 16U | offset;
    check(sqfs_meta_writer_write_inode(inodes.get(), &data));
}

std::uint32_t TreeWriter::xattrIndex(const Inode& inode) const {
    return inode.xattrs == 0 ? noXattrs : settings.xattrIndex(inode.xattrs);
}

}  // namespace sarus::image::build
