#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "image/build/tree/path_table.hpp"

namespace sarus::image::build {

/// Location of a file's content in a squashfs.
struct FileContent {
    static constexpr std::uint32_t noFragment = 0xFFFFFFFFU;

    std::uint64_t start = 0;                    ///< of the first block
    std::uint64_t holes = 0;                    ///< bytes in blocks of zeros, which are not stored
    std::uint32_t fragment = noFragment;        ///< number of the block with the file's end
    std::uint32_t fragmentOffset = noFragment;  ///< offset of the end in it
    std::vector<std::uint32_t> blocks{};        ///< their sizes as stored in squashfs, 0 for zeros
};

/// A filesystem object, independent of its names.
struct Inode {
    enum class Type : std::uint8_t { regular, symlink, charDevice, blockDevice, directory, fifo };

    static constexpr std::uint64_t notWritten = ~std::uint64_t{0};

    Type type = Type::directory;
    std::uint16_t mode = 0755;  ///< permission, set-id and sticky bits
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint32_t mtime = 0;               ///< seconds since the epoch
    std::uint32_t device = 0;              ///< in the kernel's 32-bit encoding
    std::uint32_t xattrs = 0;              ///< number in the list of attribute sets; 0: none
    std::uint32_t layer = 0;               ///< the layer it came from,
    std::uint32_t member = 0;              ///< and its member number in that archive
    std::uint32_t links = 0;               ///< names in the final tree
    std::uint32_t number = 0;              ///< inode number in the final tree; 0: none yet
    std::uint64_t reference = notWritten;  ///< its position in the squashfs
    std::uint64_t size = 0;                ///< of a regular file
    std::string target;                    ///< of a symbolic link
    std::unique_ptr<FileContent> content;  ///< of a regular file, if it was written
};

/// Inodes at stable addresses.
using Inodes = std::deque<Inode>;

/// One instruction of a layer, in the archive's order.
struct LayerEntry {
    enum class Kind : std::uint8_t { directory, file, hardLink, whiteout, opaque };

    Kind kind;
    PathId path;  ///< what a whiteout removes; the opaque directory
    /// Of directories and files (everything that is neither a directory nor a hard link).
    Inode* inode = nullptr;
    PathId linkTarget = 0;  ///< of hard links
};

/// A name in the merged tree.
struct Node {
    explicit Node(Inode* object, Node* directory, std::uint32_t level)
        : inode(object), parent(directory), depth(level) {}

    bool isDirectory() const noexcept { return inode->type == Inode::Type::directory; }

    Inode* inode;
    Node* parent;  ///< the root is its own parent
    std::uint32_t depth;
    /// Names live in the PathTable or in an inode's link target.
    std::map<std::string_view, std::unique_ptr<Node>> children;
};

/// The tree that results from applying layers in order, starting with the lowest (OCI image specification,
/// layer.md).
///
/// Within a layer, whiteouts and opaque marks act first, and only on lower layers; then the members in their
/// order, where the last one of a name wins. A directory over a directory merges and takes the new metadata;
/// anything else replaces what was there. Missing parents are created (mode 0755, time 0). Symbolic links
/// among a name's parents are followed inside the tree. A hard link shares its target's inode at that moment.
class ImageTree {
public:
    ImageTree(const PathTable& pathTable, Inodes& inodeStore);

    /// Throws Error for a tree that no filesystem could hold: a hard link to nothing or to a directory, a
    /// root that is not a directory, too many symbolic links, more than 4096 levels.
    void applyLayer(const std::vector<LayerEntry>& entries);

    /// Like applyLayer() for the lowest layer, one entry at a time while reading it. Marks have no effect
    /// there.
    void applyLowest(const LayerEntry& entry);

    Node& root() noexcept { return *top; }

    /// Calls `visit(name, node)` for each node except the root, parents first, in name order.
    template <typename Visit>
    void forEach(Visit&& visit) {
        visitBelow(*top, visit);
    }

private:
    /// What the current layer itself has at a literal path.
    enum class Said : std::uint8_t { nothing, directory, file };

    template <typename Visit>
    void visitBelow(Node& directory, Visit& visit) {
        for (auto& [name, node] : directory.children) {
            visit(name, *node);
            visitBelow(*node, visit);
        }
    }

    void applyMark(const LayerEntry& entry, const std::vector<Said>& said);
    void applyMember(const LayerEntry& entry);
    void place(Node& directory, std::string_view name, Inode* inode);
    Node* findForMark(PathId path, const std::vector<Said>& said);
    Node& makeDirectory(PathId path);
    Node* findExisting(PathId path);
    Node* walk(std::vector<std::string_view> parts, bool create, PathId forMessages);

    /// The target of a path, valid until a directory or symbolic link is removed.
    struct Known {
        Node* node = nullptr;
        std::uint64_t generation = 0;
    };

    const PathTable& paths;
    Inodes& inodes;
    std::unique_ptr<Node> top;
    std::vector<Known> known;  ///< by PathId
    /// Generation of `known`: number of removals that may have affected a path.
    std::uint64_t generation = 1;
};

}  // namespace sarus::image::build
