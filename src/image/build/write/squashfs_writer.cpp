#include "image/build/write/squashfs_writer.hpp"

#include <array>

#include "base/error.hpp"
#include "image/build/write/block_compressor.hpp"
#include "image/build/write/file_identity.hpp"
#include "squashfs/identity.hpp"

namespace sarus::image::build {

namespace {

constexpr std::uint32_t devicePadding = 4096;

}  // namespace

SquashfsWriter::SquashfsWriter(int descriptor, const std::string& name, SquashfsOptions writerOptions,
                               unsigned int workers, HashPool& hashPool)
    : options(std::move(writerOptions)),
      hashes(hashPool),
      file(descriptor, name, [this](auto begin, auto end) { hashes.written().noteWrite(begin, end, true); }) {
    compressor = makeCompressor(options);
    file.check(sqfs_super_init(&super, options.blockSize, options.creationTime,
                               static_cast<SQFS_COMPRESSOR>(options.compressorConfig().id)),
               "Failed to start");
    file.check(sqfs_super_write(&super, file.get()), "Failed to write");
    const int optionBytes = compressor->write_options(compressor.get(), file.get());
    file.check(optionBytes, "Failed to write");
    if (optionBytes > 0) {
        super.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
    }
    identityOffset = file.size();
    writeIdentity(file, identityOffset, std::string(2 * squashfs::identitySize, '0'));
    fragments = squashfs::own(sqfs_frag_table_create(0));
    xattrWriter = squashfs::own(sqfs_xattr_writer_create(0));
    content = std::make_unique<ContentWriter>(file, hashes, *fragments, options, workers);
}

std::string SquashfsWriter::identify() {
    hashes.finish();
    return identifyFile(file, identityOffset, hashes.written());
}

void SquashfsWriter::writeTree(ImageTree& tree, const std::vector<squashfs::XattrSet>& xattrs,
                               const ForcedOwner& owner, const std::string& layersId) {
    OwnerTable owners(owner);
    TreeWriter::Settings settings{.owners = owners, .xattrIndex = {}};
    std::vector<std::uint32_t> indices(xattrs.size(), TreeWriter::noXattrs);
    settings.xattrIndex = [&](std::uint32_t number) {
        if (options.xattrs && indices[number] == TreeWriter::noXattrs) {
            indices[number] = addXattrs(xattrs[number]);
        }
        return indices[number];
    };
    TreeWriter writer(file, *compressor, options, std::move(settings));
    writer.write(tree.root(), super);
    writeTables(writer, owners);
    entries = writer.entryCount();
    recorded = !layersId.empty() && owners.isComplete() && options.xattrs && !options.allTimes;
    if (recorded) {
        writeAtEnd(serialize(OwnerRecord{layersId, entries, owners.all()}));
    }
    const auto rest = file.size() % devicePadding;
    if (options.padding && rest != 0) {
        static constexpr std::array<char, devicePadding> zeros{};
        writeAtEnd({zeros.data(), devicePadding - rest});
    }
}

std::uint32_t SquashfsWriter::addXattrs(const squashfs::XattrSet& xattrs) {
    std::uint32_t index = 0;
    file.check(sqfs_xattr_writer_begin(xattrWriter.get(), 0), "Failed to write");
    for (const auto& [name, value] : xattrs) {
        file.check(sqfs_xattr_writer_add(xattrWriter.get(), name.c_str(), value.data(), value.size()),
                   "Failed to write");
    }
    file.check(sqfs_xattr_writer_end(xattrWriter.get(), &index), "Failed to write");
    return index;
}

/// Writes everything that follows inodes and directories.
void SquashfsWriter::writeTables(TreeWriter& tree, const OwnerTable& owners) {
    constexpr std::string_view doing = "Failed to write";
    file.check(sqfs_frag_table_write(fragments.get(), file.get(), &super, compressor.get()), doing);
    if (options.exportable) {
        tree.writeExportTable(super);
    }
    owners.write(file, super);
    file.check(sqfs_xattr_writer_flush(xattrWriter.get(), file.get(), &super, compressor.get()), doing);
    super.bytes_used = file.size();
    file.check(sqfs_super_write(&super, file.get()), doing);
}

void SquashfsWriter::writeAtEnd(std::string_view bytes) {
    file.check(file.get()->write_at(file.get(), file.size(), bytes.data(), bytes.size()), "Failed to write");
}

}  // namespace sarus::image::build
