#include "image/build/squashfs_writer.hpp"

#include <endian.h>
#include <sqfs/table.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/text.hpp"
#include "image/build/block_compressor.hpp"

namespace sarus::image::build {

namespace {

constexpr std::uint32_t devicePadding = 4096;

}  // namespace

SquashfsWriter::SquashfsWriter(int descriptor, const std::string& name, SquashfsOptions writerOptions, unsigned int workers)
    : options(std::move(writerOptions)), workerCount(workers), file(descriptor, name) {
    compressor = makeCompressor(options);
    file.check(sqfs_super_init(&super, options.blockSize, options.creationTime,
                               static_cast<SQFS_COMPRESSOR>(options.compressorConfig(false).id)),
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

std::size_t SquashfsWriter::writeTree(ImageTree& tree, const std::vector<XattrSet>& xattrs, Owner owner) {
    TreeWriter::Settings settings;
    file.check(sqfs_id_table_id_to_index(ids.get(), options.owner.value_or(owner.uid), &settings.uidIndex), "Failed to write");
    file.check(sqfs_id_table_id_to_index(ids.get(), options.group.value_or(owner.gid), &settings.gidIndex), "Failed to write");
    std::vector<std::uint32_t> indices(xattrs.size(), TreeWriter::noXattrs);
    settings.xattrIndex = [&](std::uint32_t number) {
        if (options.xattrs && indices[number] == TreeWriter::noXattrs) {
            indices[number] = addXattrs(xattrs[number]);
        }
        return indices[number];
    };
    TreeWriter writer(file, options, workerCount, std::move(settings));
    writer.write(tree.root());
    writeTables(writer);
    return writer.entryCount();
}

std::uint32_t SquashfsWriter::addXattrs(const XattrSet& xattrs) {
    std::uint32_t index = 0;
    file.check(sqfs_xattr_writer_begin(xattrWriter.get(), 0), "Failed to write");
    for (const auto& [name, value] : xattrs) {
        file.check(sqfs_xattr_writer_add(xattrWriter.get(), name.c_str(), value.data(), value.size()), "Failed to write");
    }
    file.check(sqfs_xattr_writer_end(xattrWriter.get(), &index), "Failed to write");
    return index;
}

/// Writes what comes behind inodes and directories.
void SquashfsWriter::writeTables(const TreeWriter& tree) {
    constexpr std::string_view doing = "Failed to write";
    super.inode_table_start = tree.inodeTableStart();
    super.directory_table_start = tree.directoryTableStart();
    super.root_inode_ref = tree.rootReference();
    super.inode_count = tree.inodeCount();
    file.check(sqfs_frag_table_write(fragments.get(), file.get(), &super, compressor.get()), doing);
    if (options.exportable) {
        writeExportTable(tree.references());
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

/// Where the inode of each number is.
void SquashfsWriter::writeExportTable(std::vector<std::uint64_t> references) {
    std::transform(references.begin(), references.end(), references.begin(), [](std::uint64_t value) { return htole64(value); });
    file.check(sqfs_write_table(file.get(), compressor.get(), references.data(), references.size() * sizeof references[0],
                                &super.export_table_start),
               "Failed to write");
    super.flags |= SQFS_FLAG_EXPORTABLE;
}

}  // namespace sarus::image::build
