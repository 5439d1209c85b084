#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "image/build/image_tree.hpp"
#include "image/build/path_table.hpp"
#include "image/build/squashfs_writer.hpp"
#include "image/build/tar_reader.hpp"

namespace sarus::image::build {

/// Turns the members of layers, read from the top layer down, into file contents in a squashfs and, at the end, into the merged
/// tree.
///
/// While a layer streams by, a file's content is written unless what the layers above say hides it; that is only a forecast,
/// which makes reading cheap. What the image really contains is decided by applying the members of all layers from the bottom up
/// (ImageTree): those of the lowest layer, which is read last, as they come, and at the end those recorded of the others. Content
/// that turns out to be needed although it was passed over (a hard link can show a file under another name than the hidden one)
/// is fetched by reading that layer again; content that turns out to be unneeded stays behind, unreferenced.
class LayerMerger {
public:
    /// Of all layers together: at most `mostEntries` members, and `mostContent` bytes in regular files, holes included.
    LayerMerger(SquashfsWriter& squashfs, std::uint32_t layerCount, std::uint64_t mostEntries, std::uint64_t mostContent);

    /// Reads layer number `layer` (0 is the lowest); to be called from the top layer down.
    void readLayer(std::uint32_t layer, TarReader& archive);

    /// Applies what is recorded, and returns for each layer the members whose content is still missing.
    std::map<std::uint32_t, std::vector<Inode*>> merge();

    /// Reads the content of `missing` (in the order of their members) from their layer's archive.
    void readMissing(const std::vector<Inode*>& missing, TarReader& archive);

    ImageTree& tree() noexcept { return merged; }
    const std::vector<XattrSet>& xattrSets() const noexcept { return xattrs; }

private:
    void addEntry(std::uint32_t layer, std::uint32_t member, TarEntry& entry, TarReader& archive);
    bool addMark(std::uint32_t layer, const std::vector<std::string_view>& parts);
    void record(std::uint32_t layer, const LayerEntry& entry);
    Inode& makeInode(std::uint32_t layer, std::uint32_t member, TarEntry& entry);
    std::uint32_t internXattrs(TarEntry& entry);
    void countContent(const TarEntry& entry);
    void countMemory(std::uint64_t bytes);
    void writeContent(Inode& inode, TarReader& archive);
    void coverLowerLayers(const std::vector<LayerEntry>& entries);

    SquashfsWriter& writer;
    std::uint64_t entryLimit;
    std::uint64_t entryCount = 0;
    std::uint64_t contentLimit;
    std::uint64_t contentBytes = 0;
    std::uint64_t memoryBytes = 0;  ///< of attributes and link targets, which stay in memory until the end
    PathTable paths;
    Inodes inodes;
    ImageTree merged;
    std::vector<std::vector<LayerEntry>> layers;
    std::vector<XattrSet> xattrs{{}};
    std::map<XattrSet, std::uint32_t> xattrNumbers;
};

}  // namespace sarus::image::build
