#pragma once

#include <sqfs/frag_table.h>
#include <sqfs/super.h>
#include <sqfs/xattr_writer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "image/build/tree/image_tree.hpp"
#include "image/build/write/content_writer.hpp"
#include "image/build/write/owner_table.hpp"
#include "image/build/write/squashfs_options.hpp"
#include "image/build/write/tree_writer.hpp"
#include "squashfs/reader/file.hpp"
#include "squashfs/reader/handles.hpp"

namespace sarus::image::build {

/// Writes one squashfs 4.0 filesystem: first the contents of files in any order, compressed by several
/// threads, then the tree. Equal calls give equal bytes, for any number of threads.
class SquashfsWriter {
public:
    /// Starts at offset 0 of the empty file `descriptor`. The caller keeps that and `hashPool`, which must be
    /// empty and used only for this file. `name`: for messages.
    SquashfsWriter(int descriptor, const std::string& name, SquashfsOptions writerOptions,
                   unsigned int workers, HashPool& hashPool);

    /// For the contents of files; finish it before writeTree.
    ContentWriter& contents() noexcept { return *content; }

    /// Writes inodes, directories and tables. `xattrs[inode.xattrs]` are an inode's attributes. With
    /// `layersId`, adds a record for other conversions of the layers (OwnerRecord).
    void writeTree(ImageTree& tree, const std::vector<squashfs::XattrSet>& xattrs, const ForcedOwner& owner,
                   const std::string& layersId = {});

    std::uint64_t size() const noexcept { return file.size(); }
    /// What the file has taken at most: equal contents are recognised once they are written.
    std::uint64_t peak() const noexcept { return file.peak(); }
    /// The number of names in the tree, except the root's.
    std::uint64_t entryCount() const noexcept { return entries; }
    /// Whether the file has a record: it contains all that the layers say.
    bool isRecorded() const noexcept { return recorded; }
    /// Completes the file with its identity (squashfs/identity.hpp) and returns the file's digest.
    std::string identify();

private:
    std::uint32_t addXattrs(const squashfs::XattrSet& xattrs);
    void writeTables(TreeWriter& tree, const OwnerTable& owners);
    void writeAtEnd(std::string_view bytes);

    SquashfsOptions options;
    HashPool& hashes;
    squashfs::File file;
    sqfs_super_t super{};
    std::uint64_t identityOffset = 0;
    std::uint64_t entries = 0;
    bool recorded = false;
    squashfs::Handle<sqfs_compressor_t> compressor;
    squashfs::Handle<sqfs_frag_table_t> fragments;
    std::unique_ptr<ContentWriter> content;
    squashfs::Handle<sqfs_xattr_writer_t> xattrWriter;
};

}  // namespace sarus::image::build
