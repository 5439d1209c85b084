#include "image/build/merge/layer_merger.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "image/build/read/layer_stream.hpp"

namespace sarus::image::build {

namespace {

constexpr std::string_view whiteoutPrefix = ".wh.";
constexpr std::string_view reservedPrefix = ".wh..wh.";
constexpr std::string_view opaqueName = ".wh..wh..opq";
constexpr std::size_t largestXattr = 65536;  // XATTR_SIZE_MAX
constexpr std::size_t longestXattrName = 255;
constexpr std::size_t largestXattrList = 65536;  // XATTR_LIST_MAX
constexpr std::uint64_t mostMemory = 128U << 20U;

/// Attributes that matter in a read-only image that belongs to its user: the user's own, and file
/// capabilities (the mount is nosuid; they are kept for the record). Omits labels and signatures of the
/// machine where the image was built, access control lists (squashfs cannot store them), and attributes that
/// would affect the overlay mounted above.
bool keepsXattr(std::string_view name) {
    return (name.starts_with("user.") && !name.starts_with("user.overlay.")) || name == "security.capability";
}

Inode::Type inodeType(TarEntry::Type type) {
    switch (type) {
        case TarEntry::Type::symlink:
            return Inode::Type::symlink;
        case TarEntry::Type::charDevice:
            return Inode::Type::charDevice;
        case TarEntry::Type::blockDevice:
            return Inode::Type::blockDevice;
        case TarEntry::Type::directory:
            return Inode::Type::directory;
        case TarEntry::Type::fifo:
            return Inode::Type::fifo;
        case TarEntry::Type::regular:
        case TarEntry::Type::hardLink:
            break;
    }
    return Inode::Type::regular;
}

}  // namespace

LayerMerger::LayerMerger(ContentWriter& contentWriter, Inodes& inodeStore, std::uint32_t layerCount,
                         std::uint64_t mostEntries, std::uint64_t mostContent)
    : contents(contentWriter),
      entryLimit(mostEntries),
      contentLimit(mostContent),
      inodes(inodeStore),
      merged(paths, inodes),
      layers(layerCount) {}

void LayerMerger::readLayer(std::uint32_t layer, MemberSource& members) {
    TarEntry entry;
    for (std::uint32_t member = 0; members.next(entry); ++member) {
        if (++entryCount > entryLimit) {
            throw Error(cat("The image's layers have more than ", entryLimit, " entries"), entryLimitHint);
        }
        countContent(entry);
        addEntry(layer, member, entry, members);
    }
    coverLowerLayers(layers[layer]);
}

/// A few bytes of an archive can stand for holes of any size, so the archive's own size is no bound.
void LayerMerger::countContent(const TarEntry& entry) {
    if (entry.type != TarEntry::Type::regular) {
        return;
    }
    if (entry.size > contentLimit - contentBytes) {
        throw Error(cat("The image's layers unpack to more than ", formatSize(contentLimit)),
                    unpackedLimitHint);
    }
    contentBytes += entry.size;
}

void LayerMerger::countMemory(std::uint64_t bytes) {
    memoryBytes += bytes;
    if (memoryBytes > mostMemory) {
        throw Error(cat("The image's extended attributes and symbolic links take more than ",
                        formatSize(mostMemory)));
    }
}

void LayerMerger::addEntry(std::uint32_t layer, std::uint32_t member, TarEntry& entry,
                           MemberSource& members) {
    const auto parts = splitPath(entry.path);
    if (addMark(layer, parts)) {
        return;
    }
    const PathId path = paths.intern(parts);
    if (entry.type == TarEntry::Type::hardLink) {
        record(layer, {LayerEntry::Kind::hardLink, path, nullptr, paths.intern(splitPath(entry.linkTarget))});
        return;
    }
    Inode& inode = makeInode(layer, member, entry);
    const bool isDirectory = inode.type == Inode::Type::directory;
    record(layer, {isDirectory ? LayerEntry::Kind::directory : LayerEntry::Kind::file, path, &inode});
    if (inode.type == Inode::Type::regular && inode.size > 0 && !paths.isHidden(path)) {
        writeContent(inode, members);
    }
}

/// Handles names reserved for whiteouts by the specification; false for all others.
bool LayerMerger::addMark(std::uint32_t layer, const std::vector<std::string_view>& parts) {
    const auto reserved =
        std::find_if(parts.begin(), parts.end(), [](auto part) { return part.starts_with(whiteoutPrefix); });
    if (reserved == parts.end()) {
        return false;
    }
    std::vector<std::string_view> path(parts.begin(), reserved);
    if (*reserved == opaqueName) {
        record(layer, {LayerEntry::Kind::opaque, paths.intern(path)});
        return true;
    }
    // AUFS keeps its own files under these names, and nothing below a whiteout is visible.
    if (reserved->starts_with(reservedPrefix) || reserved + 1 != parts.end()) {
        return true;
    }
    const auto name = reserved->substr(whiteoutPrefix.size());
    if (name.empty() || name == "." || name == "..") {
        throw Error(cat("A layer contains a whiteout of the impossible name '", name, "'"));
    }
    path.push_back(name);
    record(layer, {LayerEntry::Kind::whiteout, paths.intern(path)});
    return true;
}

Inode& LayerMerger::makeInode(std::uint32_t layer, std::uint32_t member, TarEntry& entry) {
    Inode& inode = inodes.emplace_back();
    inode.type = inodeType(entry.type);
    inode.mode = inode.type == Inode::Type::symlink ? std::uint16_t{0777} : entry.mode;
    inode.uid = entry.uid;
    inode.gid = entry.gid;
    inode.mtime = static_cast<std::uint32_t>(std::clamp<std::int64_t>(
        entry.mtime, 0, std::numeric_limits<std::uint32_t>::max()));  // squashfs stores 32 bits, unsigned
    inode.device =
        (entry.deviceMinor & 0xFFU) | entry.deviceMajor << 8U | (entry.deviceMinor & ~0xFFU) << 12U;
    inode.xattrs = internXattrs(entry);
    inode.layer = layer;
    inode.member = member;
    inode.size = entry.size;
    if (inode.type == Inode::Type::symlink) {
        if (entry.linkTarget.empty() || entry.linkTarget.size() > 4095) {
            throw Error(cat("A layer contains the symbolic link '", printable(entry.path),
                            "' with a target that is ",
                            entry.linkTarget.empty() ? "empty" : "longer than 4095 bytes"));
        }
        countMemory(entry.linkTarget.size());
        inode.target = std::move(entry.linkTarget);
    }
    return inode;
}

std::uint32_t LayerMerger::internXattrs(TarEntry& entry) {
    squashfs::XattrSet set;
    std::size_t namesSize = 0;
    for (auto& [name, value] : entry.xattrs) {
        if (!keepsXattr(name)) {
            continue;
        }
        if (name.size() > longestXattrName || value.size() > largestXattr || name == "user." ||
            name.find('\0') != std::string::npos) {
            throw Error(cat("A layer contains '", printable(entry.path),
                            "' with an extended attribute that no filesystem can hold"),
                        "Linux allows 255 bytes for the name and 64 KiB for the value");
        }
        const auto same = std::find_if(set.begin(), set.end(),
                                       [&wanted = name](const auto& known) { return known.first == wanted; });
        if (same != set.end()) {
            same->second = std::move(value);
        } else {
            namesSize += name.size() + 1;
            if (namesSize > largestXattrList) {
                throw Error(cat("A layer contains '", printable(entry.path),
                                "' with more extended attributes than Linux can list"),
                            "Linux allows 64 KiB for the names of all attributes of a file");
            }
            set.emplace_back(std::move(name), std::move(value));
        }
    }
    if (set.empty()) {
        return 0;
    }
    std::sort(set.begin(), set.end());
    const auto [found, isNew] =
        xattrNumbers.try_emplace(std::move(set), static_cast<std::uint32_t>(xattrs.size()));
    if (isNew) {
        for (const auto& [name, value] : found->first) {
            countMemory(name.size() + value.size());
        }
        xattrs.push_back(found->first);
    }
    return found->second;
}

void LayerMerger::record(std::uint32_t layer, const LayerEntry& entry) {
    if (layer == 0) {
        merged.applyLowest(entry);
    } else {
        layers[layer].push_back(entry);
    }
}

void LayerMerger::writeContent(Inode& inode, MemberSource& members) {
    contents.begin(inode);
    members.readContent([&](std::span<const unsigned char> data) { contents.append(data, members.chunk()); });
    contents.end();
}

void LayerMerger::coverLowerLayers(const std::vector<LayerEntry>& entries) {
    for (const auto& entry : entries) {
        switch (entry.kind) {
            case LayerEntry::Kind::directory:
                paths.coverName(entry.path);
                break;
            case LayerEntry::Kind::opaque:
                paths.coverChildren(entry.path);
                break;
            case LayerEntry::Kind::file:
            case LayerEntry::Kind::hardLink:
            case LayerEntry::Kind::whiteout:
                paths.coverTree(entry.path);
                break;
        }
    }
}

std::map<std::uint32_t, std::vector<Inode*>> LayerMerger::merge() {
    for (std::size_t layer = 1; layer < layers.size(); ++layer) {
        merged.applyLayer(layers[layer]);
        std::vector<LayerEntry>().swap(layers[layer]);
    }
    std::map<std::uint32_t, std::vector<Inode*>> missing;
    merged.forEach([&](std::string_view, Node& node) {
        Inode& inode = *node.inode;
        if (inode.type == Inode::Type::regular && inode.size > 0 && !inode.content) {
            missing[inode.layer].push_back(&inode);
        }
    });
    for (auto& [layer, list] : missing) {
        std::sort(list.begin(), list.end(),
                  [](const Inode* a, const Inode* b) { return a->member < b->member; });
        list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    return missing;
}

void LayerMerger::readMissing(const std::vector<Inode*>& missing, MemberSource& members) {
    TarEntry entry;
    auto wanted = missing.begin();
    for (std::uint32_t member = 0; wanted != missing.end() && members.next(entry); ++member) {
        if (member == (*wanted)->member) {
            writeContent(**wanted, members);
            ++wanted;
        }
    }
    if (wanted != missing.end()) {
        throw Error("A layer changed while it was read");
    }
}

}  // namespace sarus::image::build
