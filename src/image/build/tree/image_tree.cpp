#include "image/build/tree/image_tree.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

constexpr std::uint32_t mostLevels = 4096;
constexpr int mostLinks = 40;

bool isMark(const LayerEntry& entry) noexcept {
    return entry.kind == LayerEntry::Kind::whiteout || entry.kind == LayerEntry::Kind::opaque;
}

}  // namespace

ImageTree::ImageTree(const PathTable& pathTable, Inodes& inodeStore) : paths(pathTable), inodes(inodeStore) {
    top = std::make_unique<Node>(&inodes.emplace_back(), nullptr, 0);
    top->parent = top.get();
}

void ImageTree::applyLayer(const std::vector<LayerEntry>& entries) {
    std::vector<Said> said(paths.size(), Said::nothing);
    for (const auto& entry : entries) {
        if (entry.kind == LayerEntry::Kind::directory) {
            said[entry.path] = Said::directory;
        } else if (entry.kind == LayerEntry::Kind::file || entry.kind == LayerEntry::Kind::hardLink) {
            said[entry.path] = Said::file;
        }
    }
    for (const auto& entry : entries) {
        if (isMark(entry)) {
            applyMark(entry, said);
        }
    }
    ++generation;
    for (const auto& entry : entries) {
        if (!isMark(entry)) {
            applyMember(entry);
        }
    }
}

void ImageTree::applyLowest(const LayerEntry& entry) {
    if (!isMark(entry)) {
        applyMember(entry);
    }
}

void ImageTree::applyMark(const LayerEntry& entry, const std::vector<Said>& said) {
    if (entry.kind == LayerEntry::Kind::opaque) {
        if (Node* directory = findForMark(entry.path, said)) {
            directory->children.clear();
        }
        return;
    }
    Node* directory = findForMark(paths.parent(entry.path), said);
    if (directory != nullptr && entry.path != 0) {
        directory->children.erase(paths.name(entry.path));
    }
}

/// The directory that a mark refers to, as seen in the lower layers; null if there is none. Does not follow a
/// symbolic link that the same layer replaces by a directory: the mark does not refer to its target.
Node* ImageTree::findForMark(PathId path, const std::vector<Said>& said) {
    const auto parts = paths.parts(path);
    std::vector<PathId> prefixes(parts.size());
    for (auto i = parts.size(); i > 0; --i) {
        prefixes[i - 1] = path;
        path = paths.parent(path);
    }
    Node* node = top.get();
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto found = node->children.find(parts[i]);
        if (found == node->children.end()) {
            return nullptr;
        }
        if (!found->second->isDirectory()) {
            if (said[prefixes[i]] == Said::directory || found->second->inode->type != Inode::Type::symlink) {
                return nullptr;
            }
            Node* target = walk({parts.begin(), parts.end()}, false, prefixes.back());
            return target != nullptr && target->isDirectory() ? target : nullptr;
        }
        node = found->second.get();
    }
    return node;
}

/// Follows `parts` from the root, including symbolic links. With `create`, creates missing directories and
/// replaces anything else by one; without, returns null for those.
Node* ImageTree::walk(std::vector<std::string_view> parts, bool create, PathId forMessages) {
    std::reverse(parts.begin(), parts.end());
    Node* node = top.get();
    int links = 0;
    while (!parts.empty()) {
        const auto part = parts.back();
        parts.pop_back();
        if (part == "..") {
            node = node->parent;
            continue;
        }
        auto found = node->children.find(part);
        if (found != node->children.end() && found->second->inode->type == Inode::Type::symlink) {
            if (++links > mostLinks) {
                throw Error(
                    cat("Too many symbolic links on the way to ", paths.text(forMessages), " in a layer"));
            }
            const std::string_view target = found->second->inode->target;
            if (target.starts_with('/')) {
                node = top.get();
            }
            for (auto end = target.size(); end > 0;) {
                const auto slash = target.rfind('/', end - 1);
                const auto begin = slash == std::string_view::npos ? 0 : slash + 1;
                const auto piece = target.substr(begin, end - begin);
                if (!piece.empty() && piece != ".") {
                    parts.push_back(piece);
                }
                end = begin == 0 ? 0 : begin - 1;
            }
            continue;
        }
        if (found == node->children.end() || !found->second->isDirectory()) {
            if (!create) {
                return nullptr;
            }
            place(*node, part, &inodes.emplace_back());
            found = node->children.find(part);
        }
        node = found->second.get();
    }
    return node;
}

Node& ImageTree::makeDirectory(PathId path) {
    if (path >= known.size()) {
        known.resize(paths.size());
    }
    auto& [node, since] = known[path];
    if (since != generation) {
        node = walk(paths.parts(path), true, path);
        since = generation;
    }
    return *node;
}

Node* ImageTree::findExisting(PathId path) {
    if (path == 0) {
        return top.get();
    }
    Node* directory = walk(paths.parts(paths.parent(path)), false, path);
    if (directory == nullptr) {
        return nullptr;
    }
    const auto found = directory->children.find(paths.name(path));
    return found == directory->children.end() ? nullptr : found->second.get();
}

void ImageTree::place(Node& directory, std::string_view name, Inode* inode) {
    const auto [found, isNew] = directory.children.try_emplace(name, nullptr);
    auto& slot = found->second;
    if (!isNew && slot->isDirectory() && inode->type == Inode::Type::directory) {
        slot->inode = inode;
        return;
    }
    if (!isNew && (slot->isDirectory() || slot->inode->type == Inode::Type::symlink)) {
        ++generation;
    }
    if (directory.depth + 1 > mostLevels || name.size() > 255) {
        directory.children.erase(found);
        throw Error(
            "A layer contains a directory tree of more than 4096 levels, or a name of more than 255 bytes");
    }
    slot = std::make_unique<Node>(inode, &directory, directory.depth + 1);
}

void ImageTree::applyMember(const LayerEntry& entry) {
    Inode* inode = entry.inode;
    if (entry.kind == LayerEntry::Kind::hardLink) {
        const Node* target = findExisting(entry.linkTarget);
        if (target == nullptr) {
            throw Error(cat("A layer contains the hard link ", paths.text(entry.path), " to ",
                            paths.text(entry.linkTarget), ", which does not exist"));
        }
        if (target->isDirectory()) {
            throw Error(cat("A layer contains the hard link ", paths.text(entry.path), " to the directory ",
                            paths.text(entry.linkTarget)));
        }
        inode = target->inode;
    }
    if (entry.path == 0) {
        if (inode->type != Inode::Type::directory) {
            throw Error("A layer replaces the root directory by something else");
        }
        top->inode = inode;
        return;
    }
    place(makeDirectory(paths.parent(entry.path)), paths.name(entry.path), inode);
}

}  // namespace sarus::image::build
