#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "image/build/read/member_source.hpp"
#include "image/build/tree/image_tree.hpp"
#include "image/build/tree/path_table.hpp"
#include "image/build/write/content_writer.hpp"

namespace sarus::image::build {

/// Turns the members of layers, read from the top layer down, into file contents in a squashfs and, at the
/// end, into the merged tree.
///
/// While a layer is read, the content of each file is written unless the layers above seem to hide it. That
/// is only a forecast to make reading cheap. The actual content of the image results from applying the
/// members of all layers from the bottom up (ImageTree): those of the lowest layer, read last, immediately,
/// and the recorded ones of the others at the end. If content was skipped but is needed after all (a hard
/// link can show a file under a name that is not hidden), the layer is read again. Content that is not needed
/// after all stays in the file, unreferenced.
class LayerMerger {
public:
    /// The references must stay valid. Limits for all layers together: `mostEntries` members, and
    /// `mostContent` bytes in regular files, including holes.
    LayerMerger(ContentWriter& contentWriter, Inodes& inodeStore, std::uint32_t layerCount,
                std::uint64_t mostEntries, std::uint64_t mostContent);

    /// Reads layer number `layer` (0 is the lowest). Call it from the top layer down.
    void readLayer(std::uint32_t layer, MemberSource& members);

    /// Applies the recorded members, and returns for each layer the members whose content is still missing.
    std::map<std::uint32_t, std::vector<Inode*>> merge();

    /// Reads the content of `missing` (in archive order) from their layer's archive.
    void readMissing(const std::vector<Inode*>& missing, MemberSource& members);

    ImageTree& tree() noexcept { return merged; }
    const std::vector<squashfs::XattrSet>& xattrSets() const noexcept { return xattrs; }

private:
    void addEntry(std::uint32_t layer, std::uint32_t member, TarEntry& entry, MemberSource& members);
    bool addMark(std::uint32_t layer, const std::vector<std::string_view>& parts);
    void record(std::uint32_t layer, const LayerEntry& entry);
    Inode& makeInode(std::uint32_t layer, std::uint32_t member, TarEntry& entry);
    std::uint32_t internXattrs(TarEntry& entry);
    void countContent(const TarEntry& entry);
    void countMemory(std::uint64_t bytes);
    void writeContent(Inode& inode, MemberSource& members);
    void coverLowerLayers(const std::vector<LayerEntry>& entries);

    ContentWriter& contents;
    std::uint64_t entryLimit;
    std::uint64_t entryCount = 0;
    std::uint64_t contentLimit;
    std::uint64_t contentBytes = 0;
    std::uint64_t memoryBytes = 0;  ///< of attributes and link targets, which stay in memory until the end
    PathTable paths;
    Inodes& inodes;
    ImageTree merged;
    std::vector<std::vector<LayerEntry>> layers;
    std::vector<squashfs::XattrSet> xattrs{{}};
    std::map<squashfs::XattrSet, std::uint32_t> xattrNumbers;
};

}  // namespace sarus::image::build
