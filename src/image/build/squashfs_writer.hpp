#pragma once

#include <sqfs/frag_table.h>
#include <sqfs/id_table.h>
#include <sqfs/super.h>
#include <sqfs/xattr_writer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "image/build/content_writer.hpp"
#include "image/build/image_tree.hpp"
#include "image/build/squashfs_file.hpp"
#include "image/build/squashfs_handles.hpp"
#include "image/build/squashfs_options.hpp"
#include "image/build/tree_writer.hpp"

namespace sarus::image::build {

/// Who owns the files of an image.
struct Owner {
    std::uint32_t uid;
    std::uint32_t gid;
};

/// Writes one squashfs 4.0 filesystem: first the contents of files in any order, compressed by several threads, then the tree.
/// Equal calls give equal bytes, whatever the number of threads.
class SquashfsWriter {
public:
    /// Starts at offset 0 of the empty file `descriptor`, which stays the caller's. `name`: for messages.
    SquashfsWriter(int descriptor, const std::string& name, SquashfsOptions writerOptions, unsigned int workers);
    ~SquashfsWriter();

    /// The content of one regular file of `inode.size` bytes: begin, append any number of times, end; see ContentWriter.
    /// `inode.data` is valid after finishContent only.
    void beginFile(Inode& inode) { content->begin(inode); }
    void append(std::span<const unsigned char> data, const ChunkPtr& chunk) { content->append(data, chunk); }
    void endFile(Inode& inode);
    /// What layers may do while they are hashed.
    HashJobs& hashJobs() noexcept { return *content; }
    /// Waits until all contents are in the file.
    void finishContent() { content->finish(); }
    /// Instead of finishContent, after a failure; to be called while the inodes exist.
    void abandon() noexcept { content->stop(); }

    /// Writes inodes, directories and tables, and completes the file. `xattrs[inode.xattrs]` are an inode's attributes.
    /// Returns the number of names, without that of the root.
    std::size_t writeTree(ImageTree& tree, const std::vector<XattrSet>& xattrs, Owner owner);

    std::uint64_t size() const noexcept { return file.size(); }
    /// The digest of the complete file.
    std::string digest() { return file.digest(); }

private:
    std::uint32_t addXattrs(const XattrSet& xattrs);
    void writeTables(const TreeWriter& tree);
    void writeExportTable(std::vector<std::uint64_t> references);

    SquashfsOptions options;
    unsigned int workerCount;
    SquashfsFile file;
    sqfs_super_t super{};
    SquashfsPtr<sqfs_compressor_t> compressor;
    SquashfsPtr<sqfs_frag_table_t> fragments;
    std::unique_ptr<ContentWriter> content;
    SquashfsPtr<sqfs_id_table_t> ids;
    SquashfsPtr<sqfs_xattr_writer_t> xattrWriter;
};

}  // namespace sarus::image::build
