#include "image/build/squashfs_writer.hpp"

#include <sqfs/block.h>
#include <sqfs/error.h>
#include <sqfs/inode.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

constexpr std::uint32_t none = 0xFFFFFFFFU;
constexpr std::uint32_t devicePadding = 4096;

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

}  // namespace

SquashfsWriter::SquashfsWriter(int descriptor, const std::string& name, SquashfsOptions writerOptions, unsigned int workers)
    : options(std::move(writerOptions)), file(descriptor, name) {
    const auto config = options.compressorConfig(false);
    sqfs_compressor_t* made = nullptr;
    if (sqfs_compressor_create(&config, &made) != 0) {
        throw Error(cat("This build of libsquashfs cannot compress with ", options.compressor));
    }
    compressor.reset(made);
    file.check(sqfs_super_init(&super, options.blockSize, options.creationTime, static_cast<SQFS_COMPRESSOR>(config.id)),
               "Failed to start");
    file.check(sqfs_super_write(&super, file.get()), "Failed to write");
    const int optionBytes = compressor->write_options(compressor.get(), file.get());
    file.check(optionBytes, "Failed to write");
    if (optionBytes > 0) {
        super.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
    }
    fragments = own(sqfs_frag_table_create(0));
    ids = own(sqfs_id_table_create(0));
    xattrWriter = own(sqfs_xattr_writer_create(0));
    content = std::make_unique<ContentWriter>(file, *fragments, options, workers);
}

SquashfsWriter::~SquashfsWriter() = default;

void SquashfsWriter::endFile(Inode& inode) {
    content->end();
    inode.contentWritten = true;
}

/// Numbers the objects of a directory one after the other, as directory entries hold differences of inode numbers.
void SquashfsWriter::number(Node& directory) {
    for (auto& [name, node] : directory.children) {
        if (node->isDirectory()) {
            number(*node);
        }
    }
    for (auto& [name, node] : directory.children) {
        ++node->inode->links;
        if (node->inode->number == 0) {
            node->inode->number = ++inodeCount;
        }
    }
}

std::uint32_t SquashfsWriter::writeTree(ImageTree& tree, const std::vector<XattrSet>& xattrs, Owner owner) {
    xattrSets = &xattrs;
    xattrIndices.assign(xattrs.size(), none);
    file.check(sqfs_id_table_id_to_index(ids.get(), options.owner.value_or(owner.uid), &uidIndex), "Failed to write");
    file.check(sqfs_id_table_id_to_index(ids.get(), options.group.value_or(owner.gid), &gidIndex), "Failed to write");
    Node& root = tree.root();
    number(root);
    root.inode->number = ++inodeCount;

    super.inode_table_start = file.size();
    inodeWriter = own(sqfs_meta_writer_create(file.get(), compressor.get(), 0));
    listingWriter = own(sqfs_meta_writer_create(file.get(), compressor.get(), SQFS_META_WRITER_KEEP_IN_MEMORY));
    directoryWriter =
        own(sqfs_dir_writer_create(listingWriter.get(), options.exportable ? SQFS_DIR_WRITER_CREATE_EXPORT_TABLE : 0));
    const OwnInode listing(writeListing(root));
    writeInode(*root.inode, listing.get());
    writeTables(*root.inode);
    return inodeCount;
}

/// Writes the listing of a directory and everything below it; the inode that describes it is written by the caller, together
/// with its siblings', so that a directory's inodes lie close to each other.
sqfs_inode_generic_t* SquashfsWriter::writeListing(Node& directory) {
    std::vector<OwnInode> listings;
    std::size_t subdirectories = 0;
    for (auto& [name, node] : directory.children) {
        if (node->isDirectory()) {
            ++subdirectories;
            listings.emplace_back(writeListing(*node));
        }
    }
    auto listing = listings.begin();
    for (auto& [name, node] : directory.children) {
        if (node->isDirectory()) {
            writeInode(*node->inode, listing->get());
            ++listing;
        } else if (node->inode->reference == 0) {
            writeObject(*node->inode);
        }
    }
    file.check(sqfs_dir_writer_begin(directoryWriter.get(), 0), "Failed to write");
    std::string entryName;
    for (auto& [name, node] : directory.children) {
        entryName = name;
        const Inode& inode = *node->inode;
        file.check(sqfs_dir_writer_add_entry(directoryWriter.get(), entryName.c_str(), inode.number, inode.reference - 1,
                                             fullMode(inode)),
                   "Failed to write");
    }
    file.check(sqfs_dir_writer_end(directoryWriter.get()), "Failed to write");
    const bool isRoot = directory.parent == &directory;
    auto* inode = sqfs_dir_writer_create_inode(directoryWriter.get(), subdirectories, xattrIndex(*directory.inode),
                                               isRoot ? inodeCount + 1 : directory.parent->inode->number);
    if (inode == nullptr) {
        throw Error("Failed to write the squashfs: out of memory");
    }
    (inode->base.type == SQFS_INODE_DIR ? inode->data.dir.nlink : inode->data.dir_ext.nlink) =
        static_cast<sqfs_u32>(subdirectories + 2);
    return inode;
}

void SquashfsWriter::writeInode(Inode& inode, sqfs_inode_generic_t* data) {
    data->base.mode = fullMode(inode);
    data->base.uid_idx = uidIndex;
    data->base.gid_idx = gidIndex;
    data->base.mod_time = options.allTimes.value_or(inode.mtime);
    data->base.inode_number = inode.number;
    sqfs_u64 block = 0;
    sqfs_u32 offset = 0;
    sqfs_meta_writer_get_position(inodeWriter.get(), &block, &offset);
    inode.reference = (block << 16U | offset) + 1;  // 0 means: not written
    file.check(sqfs_meta_writer_write_inode(inodeWriter.get(), data), "Failed to write");
}

void SquashfsWriter::writeObject(Inode& inode) {
    OwnInode made;
    sqfs_inode_generic_t* data = inode.data;
    switch (inode.type) {
        case Inode::Type::regular:
            if (data == nullptr) {
                made = newInode(0);
                data = made.get();
                data->base.type = SQFS_INODE_FILE;
                data->data.file.fragment_index = none;
                data->data.file.fragment_offset = none;
            }
            if (inode.links > 1) {
                file.check(sqfs_inode_make_extended(data), "Failed to write");
                data->data.file_ext.nlink = inode.links;
            }
            break;
        case Inode::Type::symlink:
            made = newInode(inode.target.size() + 1);
            data = made.get();
            data->base.type = SQFS_INODE_SLINK;
            data->data.slink.nlink = inode.links;
            data->data.slink.target_size = static_cast<sqfs_u32>(inode.target.size());
            std::memcpy(data->extra, inode.target.data(), inode.target.size());
            break;
        case Inode::Type::charDevice:
        case Inode::Type::blockDevice:
            made = newInode(0);
            data = made.get();
            data->base.type = inode.type == Inode::Type::charDevice ? SQFS_INODE_CDEV : SQFS_INODE_BDEV;
            data->data.dev.nlink = inode.links;
            data->data.dev.devno = inode.device;
            break;
        case Inode::Type::fifo:
        case Inode::Type::directory:
            made = newInode(0);
            data = made.get();
            data->base.type = SQFS_INODE_FIFO;
            data->data.ipc.nlink = inode.links;
            break;
    }
    setXattrs(data, inode);
    writeInode(inode, data);
}

void SquashfsWriter::setXattrs(sqfs_inode_generic_t* data, const Inode& inode) {
    const auto index = xattrIndex(inode);
    if (index != none) {
        file.check(sqfs_inode_make_extended(data), "Failed to write");
        file.check(sqfs_inode_set_xattr_index(data, index), "Failed to write");
    }
}

std::uint32_t SquashfsWriter::xattrIndex(const Inode& inode) {
    if (inode.xattrs == 0 || !options.xattrs) {
        return none;
    }
    auto& index = xattrIndices[inode.xattrs];
    if (index == none) {
        file.check(sqfs_xattr_writer_begin(xattrWriter.get(), 0), "Failed to write");
        for (const auto& [name, value] : (*xattrSets)[inode.xattrs]) {
            file.check(sqfs_xattr_writer_add(xattrWriter.get(), name.c_str(), value.data(), value.size()), "Failed to write");
        }
        file.check(sqfs_xattr_writer_end(xattrWriter.get(), &index), "Failed to write");
    }
    return index;
}

void SquashfsWriter::writeTables(Inode& root) {
    constexpr std::string_view doing = "Failed to write";
    file.check(sqfs_meta_writer_flush(inodeWriter.get()), doing);
    file.check(sqfs_meta_writer_flush(listingWriter.get()), doing);
    super.root_inode_ref = root.reference - 1;
    super.inode_count = inodeCount;
    super.directory_table_start = file.size();
    file.check(sqfs_meta_write_write_to_file(listingWriter.get()), doing);
    file.check(sqfs_frag_table_write(fragments.get(), file.get(), &super, compressor.get()), doing);
    if (options.exportable) {
        file.check(sqfs_dir_writer_write_export_table(directoryWriter.get(), file.get(), compressor.get(), root.number,
                                                      super.root_inode_ref, &super),
                   doing);
    }
    file.check(sqfs_id_table_write(ids.get(), file.get(), &super, compressor.get()), doing);
    file.check(sqfs_xattr_writer_flush(xattrWriter.get(), file.get(), &super, compressor.get()), doing);
    super.bytes_used = file.size();
    file.check(sqfs_super_write(&super, file.get()), doing);
    const auto rest = file.size() % devicePadding;
    if (options.padding && rest != 0) {
        static constexpr std::array<char, devicePadding> zeros{};
        file.check(file.get()->write_at(file.get(), file.size(), zeros.data(), devicePadding - rest), doing);
    }
}

}  // namespace sarus::image::build
