#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::image::build {

/// Number of a path in a PathTable; 0 is the root.
using PathId = std::uint32_t;

/// The parts of a name from a layer. Drops empty and "." parts; ".." removes the part before it and stops at
/// the root, so every name lies below the root. Throws Error for names that no Linux filesystem can hold: a
/// part longer than 255 bytes, or more than 4095 bytes in total.
std::vector<std::string_view> splitPath(std::string_view name);

/// Every path mentioned in any layer, once, with what the layers read so far (from the top) contain there.
/// Answers one question while layers are read from the top down: can a file at this path still be visible?
class PathTable {
public:
    PathTable();

    PathId intern(const std::vector<std::string_view>& parts);

    PathId parent(PathId path) const noexcept { return paths[path].parent; }
    std::string_view name(PathId path) const noexcept { return paths[path].name; }
    std::size_t size() const noexcept { return paths.size(); }
    /// The parts from the root.
    std::vector<std::string_view> parts(PathId path) const;
    /// For messages: "/a/b".
    std::string text(PathId path) const;

    /// A file or a whiteout is at `path`: lower layers show neither it nor anything below it.
    void coverTree(PathId path);
    /// A directory is at `path`: it and its parents hide lower files of the same names.
    void coverName(PathId path);
    /// The directory is opaque: hides everything of lower layers below it.
    void coverChildren(PathId path);

    /// True if the marks hide a file of a lower layer at `path`.
    bool isHidden(PathId path) const noexcept;

private:
    struct Entry {
        PathId parent;
        std::uint8_t marks;
        std::string_view name;
    };

    PathId child(PathId parent, std::string_view name);
    std::size_t slotOf(PathId parent, std::string_view name) const noexcept;
    void grow();
    std::string_view keep(std::string_view name);

    std::vector<Entry> paths;
    std::vector<PathId> slots;  ///< open addressing; 0 is free, as the root is never looked up
    std::vector<std::unique_ptr<char[]>> arena;
    std::size_t arenaLeft = 0;
    char* arenaNext = nullptr;
};

}  // namespace sarus::image::build
