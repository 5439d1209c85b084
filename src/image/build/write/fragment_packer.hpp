#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "image/build/write/block.hpp"
#include "image/build/write/content_key.hpp"
#include "image/build/write/squashfs_options.hpp"

namespace sarus::image::build {

/// Packs the ends of files into blocks, equal ones once.
class FragmentPacker {
public:
    struct Place {
        std::uint32_t fragment = 0;  ///< number of the block
        std::uint32_t offset = 0;
    };

    FragmentPacker(const SquashfsOptions& options, const ContentKeys::Secret& secret);

    /// The place of a file's end, which must be shorter than a block. Call takeFull() before the next one.
    Place add(std::span<const unsigned char> end);
    /// The block that had no room for the last end, if any.
    std::optional<Block> takeFull() noexcept { return std::exchange(full, std::nullopt); }
    /// The incomplete block, if any.
    std::optional<Block> takeRest();

private:
    std::size_t blockSize;
    bool findsEqual;
    ContentKeys keys;
    std::unordered_map<ContentKey, Place, ContentKeyHash> known;
    std::shared_ptr<Chunk> filling;
    std::size_t filled = 0;
    std::uint32_t number = 0;  ///< of `filling`
    std::optional<Block> full;
};

}  // namespace sarus::image::build
