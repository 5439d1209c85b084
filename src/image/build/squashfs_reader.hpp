#pragma once

#include <sqfs/compressor.h>
#include <sqfs/data_reader.h>
#include <sqfs/dir_reader.h>
#include <sqfs/inode.h>
#include <sqfs/super.h>
#include <sqfs/xattr_reader.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "image/build/squashfs_file.hpp"
#include "image/build/squashfs_handles.hpp"

namespace sarus::image::build {

struct SquashfsInodeFree {
    void operator()(sqfs_inode_generic_t* inode) const noexcept { sqfs_free(inode); }
};
using SquashfsInode = std::unique_ptr<sqfs_inode_generic_t, SquashfsInodeFree>;

/// Reads the tree of a squashfs 4.0 image whose every byte may be hostile. Names are checked before they are handed out.
class SquashfsReader {
public:
    struct Entry {
        std::string name;  ///< no slash, no NUL, neither "." nor "..", 1 to 255 bytes
        SquashfsInode inode;
    };

    explicit SquashfsReader(const std::string& imagePath);

    SquashfsInode root();
    std::vector<Entry> list(const sqfs_inode_generic_t& directory);
    XattrSet xattrs(const sqfs_inode_generic_t& inode);

    SquashfsFile& file() noexcept { return image; }
    const sqfs_super_t& superblock() const noexcept { return super; }
    SquashfsPtr<sqfs_compressor_t> newDecompressor();

private:
    std::string path;
    UniqueFd fd;
    SquashfsFile image;
    sqfs_super_t super{};
    SquashfsPtr<sqfs_compressor_t> decompressor;
    SquashfsPtr<sqfs_dir_reader_t> directories;
    SquashfsPtr<sqfs_xattr_reader_t> xattrReader;
};

/// Reads file contents of a SquashfsReader's image; one for each thread.
class SquashfsContent {
public:
    explicit SquashfsContent(SquashfsReader& reader);

    /// Hands the content to `sink` as (offset, bytes); blocks of zeros that the image does not store are left out.
    void read(const sqfs_inode_generic_t& inode, const std::function<void(std::uint64_t, std::span<const char>)>& sink);

private:
    SquashfsFile& file;
    SquashfsPtr<sqfs_compressor_t> decompressor;
    SquashfsPtr<sqfs_data_reader_t> reader;
    std::vector<char> buffer;
};

}  // namespace sarus::image::build
