#pragma once

#include <sqfs/dir_writer.h>
#include <sqfs/inode.h>
#include <sqfs/meta_writer.h>
#include <sqfs/super.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "image/build/tree/image_tree.hpp"
#include "image/build/write/owner_table.hpp"
#include "image/build/write/squashfs_options.hpp"
#include "squashfs/reader/file.hpp"
#include "squashfs/reader/handles.hpp"

namespace sarus::image::build {

/// Writes the inode table and the directory table of a squashfs with libsquashfs.
class TreeWriter {
public:
    static constexpr std::uint32_t noXattrs = 0xFFFFFFFFU;

    /// Inputs for the inodes besides the tree.
    struct Settings {
        /// Takes the owners of all inodes.
        OwnerTable& owners;
        /// The squashfs's number for a set of attributes, or noXattrs; always called in the same order.
        std::function<std::uint32_t(std::uint32_t set)> xattrIndex;
    };

    /// All references must stay valid.
    TreeWriter(squashfs::File& out, sqfs_compressor_t& tableCompressor, const SquashfsOptions& options,
               Settings treeSettings);

    /// Writes both tables at the end of the file, and sets their fields in the superblock. Sets `links`,
    /// `number` and `reference` of all inodes.
    void write(Node& root, sqfs_super_t& super);

    /// Writes the table of inode positions at the end of the file. Call it after write, if the options
    /// request it.
    void writeExportTable(sqfs_super_t& super);

    /// The number of names, except the root's.
    std::size_t entryCount() const noexcept { return names; }

private:
    void number(Node& directory);
    squashfs::OwnInode writeListing(Node& directory);
    squashfs::OwnInode regular(const Inode& inode) const;
    squashfs::OwnInode described(const Inode& inode) const;
    void writeObject(Inode& inode);
    void writeInode(Inode& inode, sqfs_inode_generic_t& data);
    std::uint32_t xattrIndex(const Inode& inode) const;
    void check(int result) const { file.check(result, "Failed to write"); }

    squashfs::File& file;
    sqfs_compressor_t& compressor;
    const SquashfsOptions& options;
    Settings settings;
    squashfs::Handle<sqfs_meta_writer_t> inodes;
    squashfs::Handle<sqfs_meta_writer_t> listings;
    squashfs::Handle<sqfs_dir_writer_t> directories;
    std::size_t names = 0;
    std::uint32_t lastNumber = 0;
};

}  // namespace sarus::image::build
