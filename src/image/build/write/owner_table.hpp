#pragma once

#include <sqfs/super.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "squashfs/reader/file.hpp"

namespace sarus::image::build {

/// The owner of an image's files.
struct Owner {
    std::uint32_t uid;
    std::uint32_t gid;
};

/// The owner that all files of a squashfs get; nullopt: as in the layers.
struct ForcedOwner {
    std::optional<std::uint32_t> uid{};
    std::optional<std::uint32_t> gid{};
};

/// An id of the layers.
struct OwnerSlot {
    enum class Kind : std::uint8_t { user, group };

    Kind kind;
    std::uint32_t id;
    auto operator<=>(const OwnerSlot&) const = default;
};

/// The blocks of a squashfs's id table and their index. They are never compressed, so their size depends only
/// on the number of ids.
struct IdTable {
    IdTable(const std::vector<OwnerSlot>& slots, const ForcedOwner& forced);

    /// The positions of the blocks if the first one lies at `begin`.
    std::string index(std::uint64_t begin) const;

    std::string blocks;
};

/// Collects the owners of a squashfs's inodes, which name them by their slot in the id table. Each id of the
/// layers has a slot, also if all files get one owner: then the slots have equal values. A copy of the file
/// with other owners therefore differs only in the table (reuse.hpp).
class OwnerTable {
public:
    explicit OwnerTable(const ForcedOwner& forcedOwner) : forced(forcedOwner) {}

    /// Throws Error if there are too many ids that matter.
    std::uint16_t userSlot(std::uint32_t uid) { return slot({OwnerSlot::Kind::user, uid}, forced.uid); }
    std::uint16_t groupSlot(std::uint32_t gid) { return slot({OwnerSlot::Kind::group, gid}, forced.gid); }

    /// Writes the table at the end of the file, and its fields in the superblock.
    void write(squashfs::File& file, sqfs_super_t& super) const;

    /// Whether the table has a slot for each id of the layers.
    bool isComplete() const noexcept { return complete; }
    const std::vector<OwnerSlot>& all() const noexcept { return slots; }

private:
    std::uint16_t slot(const OwnerSlot& owner, const std::optional<std::uint32_t>& value);

    ForcedOwner forced;
    std::vector<OwnerSlot> slots;
    std::map<OwnerSlot, std::uint16_t> numbers;
    bool complete = true;
};

/// What the builder writes behind a filesystem, where readers do not look: all that another squashfs of the
/// same layers needs besides the filesystem.
struct OwnerRecord {
    std::string layersId;       ///< of image/store/conversions.hpp
    std::uint64_t entries = 0;  ///< names in the image
    std::vector<OwnerSlot> slots;
};

std::string serialize(const OwnerRecord& record);
/// Nullopt if `text` does not begin with a record.
std::optional<OwnerRecord> parseOwnerRecord(std::string_view text);

/// The size of the longest record.
constexpr std::size_t largestOwnerRecord = 1U << 20U;

}  // namespace sarus::image::build
