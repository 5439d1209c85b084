#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "image/build/path_table.hpp"

struct sqfs_inode_generic_t;

namespace sarus::image::build {

/// A filesystem object, independent of its names.
struct Inode {
    enum class Type : std::uint8_t { regular, symlink, charDevice, blockDevice, directory, fifo };

    Type type = Type::directory;
    bool contentWritten = false;           ///< of a regular file: `data` describes its content
    std::uint16_t mode = 0755;             ///< permission, set-id and sticky bits
    std::uint32_t mtime = 0;               ///< seconds since the epoch
    std::uint32_t device = 0;              ///< in the kernel's 32-bit encoding
    std::uint32_t xattrs = 0;              ///< number in the list of attribute sets; 0: none
    std::uint32_t layer = 0;               ///< where it came from,
    std::uint32_t member = 0;              ///< and which member of that archive it was
    std::uint32_t links = 0;               ///< names in the final tree
    std::uint32_t number = 0;              ///< inode number in the final tree; 0: none yet
    std::uint64_t reference = 0;           ///< where the squashfs has it; 0: not written yet
    std::uint64_t size = 0;                ///< of a regular file
    std::string target;                    ///< of a symbolic link
    sqfs_inode_generic_t* data = nullptr;  ///< the squashfs writer's; freed by Inodes
};

/// Owns inodes at addresses that stay.
class Inodes {
public:
    Inodes() = default;
    Inodes(const Inodes&) = delete;
    Inodes& operator=(const Inodes&) = delete;
    ~Inodes();

    Inode& add() { return all.emplace_back(); }
    std::size_t size() const noexcept { return all.size(); }

private:
    std::deque<Inode> all;
};

/// One instruction of a layer, in the archive's order.
struct LayerEntry {
    enum class Kind : std::uint8_t { directory, file, hardLink, whiteout, opaque };

    Kind kind;
    PathId path;             ///< what a whiteout removes; the directory which is opaque
    Inode* inode = nullptr;  ///< of directories and files (everything that is neither a directory nor a hard link)
    PathId linkTarget = 0;   ///< of hard links
};

/// A name in the merged tree.
struct Node {
    explicit Node(Inode* object, Node* directory, std::uint32_t level) : inode(object), parent(directory), depth(level) {}

    bool isDirectory() const noexcept { return inode->type == Inode::Type::directory; }

    Inode* inode;
    Node* parent;  ///< the root is its own parent
    std::uint32_t depth;
    std::map<std::string_view, std::unique_ptr<Node>> children;  ///< names live in the PathTable or in an inode's link target
};

/// The tree that results when layers are applied one upon the other, from the lowest on (OCI image specification, layer.md).
///
/// Within a layer: whiteouts and opaque marks act first, and on lower layers only; then the members in their order, the last of a
/// name winning. Directory upon directory merges and takes the new metadata, anything else replaces what was there. Missing
/// parents are made (mode 0755, time 0); symbolic links among a name's parents are followed inside of the tree. A hard link
/// shares the inode which its target has at that moment.
class ImageTree {
public:
    ImageTree(const PathTable& pathTable, Inodes& inodeStore);

    /// Throws Error for what no filesystem could hold: a hard link to nothing or to a directory, a root that is no directory, too
    /// many symbolic links, more than 4096 levels.
    void applyLayer(const std::vector<LayerEntry>& entries);

    /// The same for the lowest layer, one entry after the other, as they are read. Marks have nothing to act on there.
    void applyLowest(const LayerEntry& entry);

    Node& root() noexcept { return *top; }

    /// Calls `visit(name, node)` for each node but the root, parents first, in the order of names.
    template <typename Visit>
    void forEach(Visit&& visit) {
        visitBelow(*top, visit);
    }

private:
    /// What the current layer says itself about a literal path.
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

    /// Where a path leads, as long as no directory and no symbolic link is removed.
    struct Known {
        Node* node = nullptr;
        std::uint64_t generation = 0;
    };

    const PathTable& paths;
    Inodes& inodes;
    std::unique_ptr<Node> top;
    std::vector<Known> known;      ///< by PathId
    std::uint64_t generation = 1;  ///< of what is known: how often something was removed that may have been on the way
};

}  // namespace sarus::image::build
