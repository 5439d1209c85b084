#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "image/build/read/member_source.hpp"
#include "squashfs/reader/reader.hpp"

namespace sarus::image::build {

/// Reads the files of a squashfs image, every byte of which may be hostile, as members of a layer. Leaves
/// sockets out, as LayerDirectory does. Throws Error.
class SquashfsLayer final : public MemberSource {
public:
    /// Counts in `bytesRead` the stored bytes of the files that were passed.
    SquashfsLayer(const std::string& path, std::atomic<std::uint64_t>& bytesRead);

    bool next(TarEntry& entry) override;
    void readContent(const std::function<void(std::span<const unsigned char>)>& sink) override;
    ChunkPtr chunk() const override { return nullptr; }

private:
    struct Level {
        std::string path;  ///< with a slash at the end; "" for the root
        std::vector<squashfs::Reader::Entry> entries{};
        std::size_t next = 0;
    };

    bool describe(const std::string& path, squashfs::OwnInode inode, TarEntry& entry);
    void enter(const std::string& path, const sqfs_inode_generic_t& inode);
    void countStored() const;

    std::atomic<std::uint64_t>& counter;
    squashfs::Reader reader;
    squashfs::OwnerReader owners;
    squashfs::ContentReader content;
    bool hasBegun = false;
    std::vector<Level> levels;
    std::unordered_set<std::uint32_t> seenDirectories;
    std::unordered_map<std::uint32_t, std::string> firstNames;  ///< of files with several
    squashfs::OwnInode current;                                 ///< regular file
};

}  // namespace sarus::image::build
