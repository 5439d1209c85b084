#include "squashfs/reader/reader.hpp"

#include <fcntl.h>
#include <sqfs/block.h>
#include <sqfs/dir.h>
#include <sqfs/error.h>
#include <sqfs/xattr.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::squashfs {

namespace {

constexpr std::string_view doing = "Failed to read";

UniqueFd openImage(const std::string& path) {
    UniqueFd fd = openFile(path, O_RDONLY | O_NONBLOCK);
    struct stat status {};
    checkErrno(::fstat(fd.get(), &status), cat("Failed to examine ", path));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat(path, " is not a regular file"));
    }
    return fd;
}

}  // namespace

Reader::Reader(const std::string& imagePath, std::uint64_t offset)
    : path(imagePath), fd(openImage(path)), image(fd.get(), path, offset) {
    image.check(sqfs_super_read(&super, image.get()), doing);
    // A table of n fragments has n / 512 blocks, whose positions alone take 8 bytes each.
    if (super.fragment_entry_count / 64 > image.size()) {
        image.check(SQFS_ERROR_CORRUPTED, doing);
    }
    decompressor = newDecompressor();
    directories = own(sqfs_dir_reader_create(&super, decompressor.get(), image.get(), 0));
    xattrReader = own(sqfs_xattr_reader_create(0));
    image.check(sqfs_xattr_reader_load(xattrReader.get(), &super, image.get(), decompressor.get()), doing);
}

Handle<sqfs_compressor_t> Reader::newDecompressor() {
    sqfs_compressor_config_t config;
    sqfs_compressor_t* made = nullptr;
    image.check(sqfs_compressor_config_init(&config, static_cast<SQFS_COMPRESSOR>(super.compression_id),
                                            super.block_size, SQFS_COMP_FLAG_UNCOMPRESS),
                doing);
    image.check(sqfs_compressor_create(&config, &made), doing);
    Handle<sqfs_compressor_t> owned(made);
    if ((super.flags & SQFS_FLAG_COMPRESSOR_OPTIONS) != 0) {
        image.check(owned->read_options(owned.get(), image.get()), doing);
    }
    return owned;
}

OwnInode Reader::root() {
    sqfs_inode_generic_t* inode = nullptr;
    image.check(sqfs_dir_reader_get_root_inode(directories.get(), &inode), doing);
    return OwnInode(inode);
}

std::vector<Reader::Entry> Reader::list(const sqfs_inode_generic_t& directory) {
    std::vector<Entry> entries;
    image.check(sqfs_dir_reader_open_dir(directories.get(), &directory, 0), doing);
    while (true) {
        sqfs_dir_entry_t* raw = nullptr;
        const int result = sqfs_dir_reader_read(directories.get(), &raw);
        image.check(result, doing);
        if (result > 0) {
            return entries;
        }
        const std::unique_ptr<sqfs_dir_entry_t, decltype(&sqfs_free)> entry(raw, sqfs_free);
        std::string name(reinterpret_cast<const char*>(entry->name), std::size_t{entry->size} + 1);
        if (name.empty() || name.size() > 255 || name == "." || name == ".." ||
            name.find('/') != std::string::npos || name.find('\0') != std::string::npos) {
            throw Error(
                cat(doing, ' ', path, ": the image contains the forbidden name '", printable(name), "'"));
        }
        sqfs_inode_generic_t* inode = nullptr;
        image.check(sqfs_dir_reader_get_inode(directories.get(), &inode), doing);
        entries.push_back({std::move(name), OwnInode(inode)});
    }
}

XattrSet Reader::xattrs(const sqfs_inode_generic_t& inode) {
    XattrSet set;
    sqfs_u32 index = 0;
    image.check(sqfs_inode_get_xattr_index(&inode, &index), doing);
    // Without a table the kernel ignores an inode's attributes, and the library would dereference a null
    // pointer.
    const bool hasTable =
        (super.flags & SQFS_FLAG_NO_XATTRS) == 0 && super.xattr_id_table_start != ~std::uint64_t{0};
    if (index == 0xFFFFFFFFU || !hasTable) {
        return set;
    }
    sqfs_xattr_id_t description{};
    image.check(sqfs_xattr_reader_get_desc(xattrReader.get(), index, &description), doing);
    image.check(sqfs_xattr_reader_seek_kv(xattrReader.get(), &description), doing);
    for (sqfs_u32 i = 0; i < description.count; ++i) {
        sqfs_xattr_entry_t* key = nullptr;
        image.check(sqfs_xattr_reader_read_key(xattrReader.get(), &key), doing);
        const std::unique_ptr<sqfs_xattr_entry_t, decltype(&sqfs_free)> ownedKey(key, sqfs_free);
        sqfs_xattr_value_t* value = nullptr;
        image.check(sqfs_xattr_reader_read_value(xattrReader.get(), key, &value), doing);
        const std::unique_ptr<sqfs_xattr_value_t, decltype(&sqfs_free)> ownedValue(value, sqfs_free);
        set.emplace_back(reinterpret_cast<const char*>(key->key),
                         std::string(reinterpret_cast<const char*>(value->value), value->size));
    }
    return set;
}

OwnerReader::OwnerReader(Reader& reader) : file(reader.file()), table(own(sqfs_id_table_create(0))) {
    const auto decompressor = reader.newDecompressor();
    file.check(sqfs_id_table_read(table.get(), file.get(), &reader.superblock(), decompressor.get()), doing);
}

OwnerReader::Owner OwnerReader::of(const sqfs_inode_generic_t& inode) const {
    Owner owner;
    file.check(sqfs_id_table_index_to_id(table.get(), inode.base.uid_idx, &owner.uid), doing);
    file.check(sqfs_id_table_index_to_id(table.get(), inode.base.gid_idx, &owner.gid), doing);
    return owner;
}

ContentReader::ContentReader(Reader& source)
    : file(source.file()),
      decompressor(source.newDecompressor()),
      reader(own(sqfs_data_reader_create(file.get(), source.superblock().block_size, decompressor.get(), 0))),
      buffer(source.superblock().block_size) {
    file.check(sqfs_data_reader_load_fragment_table(reader.get(), &source.superblock()), doing);
}

void ContentReader::read(const sqfs_inode_generic_t& inode,
                         const std::function<void(std::uint64_t, std::span<const char>)>& sink) {
    sqfs_u64 size = 0;
    file.check(sqfs_inode_get_file_size(&inode, &size), doing);
    const std::size_t blocks = sqfs_inode_get_file_block_count(&inode);
    for (std::uint64_t offset = 0; offset < size; offset += buffer.size()) {
        const std::uint64_t index = offset / buffer.size();
        if (index < blocks && SQFS_IS_SPARSE_BLOCK(inode.extra[index])) {
            continue;
        }
        const auto wanted = static_cast<sqfs_u32>(std::min<std::uint64_t>(size - offset, buffer.size()));
        const auto count = sqfs_data_reader_read(reader.get(), &inode, offset, buffer.data(), wanted);
        file.check(count, doing);
        if (static_cast<sqfs_u32>(count) != wanted) {
            file.check(SQFS_ERROR_CORRUPTED, doing);
        }
        sink(offset, {buffer.data(), wanted});
    }
}

}  // namespace sarus::squashfs
