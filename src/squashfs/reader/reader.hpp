#pragma once

#include <sqfs/compressor.h>
#include <sqfs/data_reader.h>
#include <sqfs/dir_reader.h>
#include <sqfs/id_table.h>
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
#include "squashfs/reader/file.hpp"
#include "squashfs/reader/handles.hpp"

namespace sarus::squashfs {

/// Reads the tree of a squashfs 4.0 image, every byte of which may be hostile. Checks names before returning
/// them.
class Reader {
public:
    struct Entry {
        std::string name;  ///< no slash, no NUL, neither "." nor "..", 1 to 255 bytes
        OwnInode inode;
    };

    /// `offset`: of the filesystem in the file.
    explicit Reader(const std::string& imagePath, std::uint64_t offset = 0);

    OwnInode root();
    std::vector<Entry> list(const sqfs_inode_generic_t& directory);
    XattrSet xattrs(const sqfs_inode_generic_t& inode);

    File& file() noexcept { return image; }
    const sqfs_super_t& superblock() const noexcept { return super; }
    Handle<sqfs_compressor_t> newDecompressor();

private:
    std::string path;
    UniqueFd fd;
    File image;
    sqfs_super_t super{};
    Handle<sqfs_compressor_t> decompressor;
    Handle<sqfs_dir_reader_t> directories;
    Handle<sqfs_xattr_reader_t> xattrReader;
};

/// The owners of a Reader's files.
class OwnerReader {
public:
    explicit OwnerReader(Reader& reader);

    struct Owner {
        std::uint32_t uid = 0;
        std::uint32_t gid = 0;
    };
    Owner of(const sqfs_inode_generic_t& inode) const;

private:
    File& file;
    Handle<sqfs_id_table_t> table;
};

/// Reads file contents of a Reader's image; use one per thread.
class ContentReader {
public:
    explicit ContentReader(Reader& reader);

    /// Passes the content to `sink` as (offset, bytes). Skips blocks of zeros that the image does not store.
    void read(const sqfs_inode_generic_t& inode,
              const std::function<void(std::uint64_t, std::span<const char>)>& sink);

private:
    File& file;
    Handle<sqfs_compressor_t> decompressor;
    Handle<sqfs_data_reader_t> reader;
    std::vector<char> buffer;
};

}  // namespace sarus::squashfs
