#include "image/build/write/fragment_packer.hpp"

#include <cstring>

namespace sarus::image::build {

FragmentPacker::FragmentPacker(const SquashfsOptions& options, const ContentKeys::Secret& secret)
    : blockSize(options.blockSize), findsEqual(options.duplicates), keys(secret) {
    known.reserve(1U << 17U);  // a growing table reads all its keys again
}

FragmentPacker::Place FragmentPacker::add(std::span<const unsigned char> end) {
    Place* remembered = nullptr;
    if (findsEqual) {
        const auto [found, isNew] = known.try_emplace(keys.of(end));
        if (!isNew) {
            return found->second;
        }
        remembered = &found->second;
    }
    if (filled + end.size() > blockSize) {
        full = takeRest();
        ++number;
    }
    if (!filling) {
        filling = std::make_shared<Chunk>(blockSize);
    }
    const Place place{number, static_cast<std::uint32_t>(filled)};
    std::memcpy(filling->data() + filled, end.data(), end.size());
    filled += end.size();
    if (remembered != nullptr) {
        *remembered = place;
    }
    return place;
}

std::optional<Block> FragmentPacker::takeRest() {
    if (filled == 0) {
        return std::nullopt;
    }
    filling->setSize(filled);
    filled = 0;
    Block block;
    block.bytes = filling->bytes();
    block.chunk = std::move(filling);
    block.keeps = blockSize;
    return block;
}

}  // namespace sarus::image::build
