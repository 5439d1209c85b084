#include "image/build/tree/path_table.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

constexpr std::size_t longestPart = 255;
constexpr std::size_t longestPath = 4095;
constexpr std::size_t arenaBlock = 256U << 10U;
constexpr std::size_t firstSlots = 1U << 16U;  // a growing table looks up all its names again

constexpr std::uint8_t treeCovered = 1;
constexpr std::uint8_t nameCovered = 2;
constexpr std::uint8_t childrenCovered = 4;

}  // namespace

std::vector<std::string_view> splitPath(std::string_view name) {
    std::vector<std::string_view> parts;
    std::size_t total = 0;
    for (std::size_t begin = 0; begin < name.size();) {
        const auto end = std::min(name.find('/', begin), name.size());
        const auto part = name.substr(begin, end - begin);
        begin = end + 1;
        if (part == "..") {
            if (!parts.empty()) {
                total -= parts.back().size() + 1;
                parts.pop_back();
            }
        } else if (!part.empty() && part != ".") {
            total += part.size() + 1;
            parts.push_back(part);
            if (part.size() > longestPart || total > longestPath) {
                throw Error(
                    cat("The layer contains a name that is too long: ", printable(name.substr(0, 80)), "..."),
                    "Linux allows 255 bytes between slashes and 4095 bytes in all");
            }
        }
    }
    return parts;
}

PathTable::PathTable() : paths{{0, 0, {}}}, slots(firstSlots, 0) {}

std::size_t PathTable::slotOf(PathId parent, std::string_view name) const noexcept {
    const std::size_t mask = slots.size() - 1;
    std::size_t slot =
        (std::hash<std::string_view>()(name) ^ (parent * std::size_t{0x9E3779B97F4A7C15U})) & mask;
    while (slots[slot] != 0 && (paths[slots[slot]].parent != parent || paths[slots[slot]].name != name)) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

std::string_view PathTable::keep(std::string_view name) {
    if (name.size() > arenaLeft) {
        arena.push_back(std::make_unique<char[]>(arenaBlock));
        arenaNext = arena.back().get();
        arenaLeft = arenaBlock;
    }
    std::memcpy(arenaNext, name.data(), name.size());
    const std::string_view kept(arenaNext, name.size());
    arenaNext += name.size();
    arenaLeft -= name.size();
    return kept;
}

void PathTable::grow() {
    slots.assign(slots.size() * 2, 0);
    for (PathId path = 1; path < paths.size(); ++path) {
        slots[slotOf(paths[path].parent, paths[path].name)] = path;
    }
}

PathId PathTable::child(PathId parent, std::string_view name) {
    auto slot = slotOf(parent, name);
    if (slots[slot] == 0) {
        if (paths.size() * 2 > slots.size()) {
            grow();
            slot = slotOf(parent, name);
        }
        slots[slot] = static_cast<PathId>(paths.size());
        paths.push_back({parent, 0, keep(name)});
    }
    return slots[slot];
}

PathId PathTable::intern(const std::vector<std::string_view>& parts) {
    PathId path = 0;
    for (const auto part : parts) {
        path = child(path, part);
    }
    return path;
}

std::vector<std::string_view> PathTable::parts(PathId path) const {
    std::vector<std::string_view> result;
    for (; path != 0; path = paths[path].parent) {
        result.push_back(paths[path].name);
    }
    std::reverse(result.begin(), result.end());
    return result;
}

std::string PathTable::text(PathId path) const {
    std::string result;
    for (const auto part : parts(path)) {
        result += cat('/', printable(part));
    }
    return result.empty() ? "/" : result;
}

void PathTable::coverTree(PathId path) {
    coverName(path);
    paths[path].marks |= treeCovered;
}

void PathTable::coverName(PathId path) {
    for (; (paths[path].marks & nameCovered) == 0; path = paths[path].parent) {
        paths[path].marks |= nameCovered;
    }
}

void PathTable::coverChildren(PathId path) {
    coverName(path);
    paths[path].marks |= childrenCovered;
}

bool PathTable::isHidden(PathId path) const noexcept {
    if (paths[path].marks != 0) {
        return true;
    }
    while (path != 0) {
        path = paths[path].parent;
        if ((paths[path].marks & (treeCovered | childrenCovered)) != 0) {
            return true;
        }
    }
    return false;
}

}  // namespace sarus::image::build
