#include "image/build/reuse.hpp"

#include <fcntl.h>
#include <sqfs/compressor.h>
#include <sqfs/super.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/build/hash/written_digest.hpp"
#include "image/build/write/file_identity.hpp"
#include "squashfs/identity.hpp"
#include "squashfs/reader/file.hpp"

namespace sarus::image::build {

namespace {

/// The file to copy. The constructor throws Error if it cannot be used.
class Source {
public:
    Source(const std::string& path, const std::string& layersId)
        : fd(openFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)), file(fd.get(), path) {
        struct stat status {};
        checkErrno(::fstat(fd.get(), &status), cat("Failed to examine ", path));
        const bool ours = status.st_uid == ::geteuid() || status.st_uid == 0;
        if (!S_ISREG(status.st_mode) || !ours || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
            throw Error(cat(path, " is not a file of the caller alone"));
        }
        file.check(sqfs_super_read(&super, file.get()), "Failed to read");
        readRecord(layersId, path);
        identity = squashfs::squashfsIdentity(fd.get(), path);
        identityOffset = squashfs::squashfsIdentityOffset(fd.get(), path);
        if (identity.empty()) {
            throw Error(cat(path, " has no identity"));
        }
    }

    /// The offset of the id table's blocks, if the file has the table that the record implies.
    std::uint64_t tableOffset(const IdTable& table) {
        if (super.id_count != record.slots.size() || super.id_table_start < table.blocks.size()) {
            throw Error("The squashfs and its record disagree");
        }
        const auto offset = super.id_table_start - table.blocks.size();
        const auto expected = table.index(offset);
        std::string index(expected.size(), '\0');
        file.read(super.id_table_start, {reinterpret_cast<unsigned char*>(index.data()), index.size()});
        if (index != expected) {
            throw Error("The squashfs has an unknown table of ids");
        }
        return offset;
    }

    UniqueFd fd;
    squashfs::File file;
    sqfs_super_t super{};
    OwnerRecord record;
    std::string identity;
    std::uint64_t identityOffset = 0;

private:
    void readRecord(const std::string& layersId, const std::string& path) {
        if (super.bytes_used > file.size()) {
            throw Error(cat(path, " is truncated"));
        }
        std::vector<unsigned char> bytes(
            std::min<std::uint64_t>(file.size() - super.bytes_used, largestOwnerRecord));
        file.read(super.bytes_used, bytes);
        auto found = parseOwnerRecord({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        if (!found || found->layersId != layersId) {
            throw Error(cat(path, " does not hold these layers"));
        }
        record = std::move(*found);
    }
};

void copyBytes(squashfs::File& source, squashfs::File& copy, const ProgressOutput& output) {
    constexpr std::size_t atOnce = 1U << 20U;
    const auto size = source.size();
    std::atomic<std::uint64_t> done{0};
    const Progress progress(output, "Copying image", size, [&] { return done.load(); });
    std::vector<unsigned char> buffer(std::min<std::uint64_t>(size, atOnce));
    while (done < size) {
        const auto count = std::min<std::uint64_t>(size - done, buffer.size());
        source.read(done, std::span(buffer).first(count));
        copy.check(copy.get()->write_at(copy.get(), done, buffer.data(), count), "Failed to write");
        done += count;
    }
}

ReusedFile copyWithOwner(Source& source, const ForcedOwner& owner, int output,
                         const ProgressOutput& progress) {
    const IdTable table(source.record.slots, owner);
    const auto tableOffset = source.tableOffset(table);
    WrittenDigest written;
    squashfs::File copy(output, "the output",
                        [&](auto begin, auto end) { written.noteWrite(begin, end, true); });
    copyBytes(source.file, copy, progress);
    if (computeIdentity(copy, source.identityOffset, written) != source.identity) {
        throw Error("The file is damaged");
    }
    copy.check(copy.get()->write_at(copy.get(), tableOffset, table.blocks.data(), table.blocks.size()),
               "Failed to write");
    return {.digest = identifyFile(copy, source.identityOffset, written),
            .size = copy.size(),
            .entries = source.record.entries,
            .compressor =
                sqfs_compressor_name_from_id(static_cast<SQFS_COMPRESSOR>(source.super.compression_id))};
}

}  // namespace

std::optional<ReusedFile> reuseSquashfs(const std::string& path, const std::string& layersId,
                                        const ForcedOwner& owner, int output,
                                        const ProgressOutput& progress) {
    try {
        Source source(path, layersId);
        return copyWithOwner(source, owner, output, progress);
    } catch (const Error&) {  // whatever the reason, the layers can be converted
        checkErrno(::ftruncate(output, 0), "Failed to truncate the output");
        return std::nullopt;
    }
}

}  // namespace sarus::image::build
