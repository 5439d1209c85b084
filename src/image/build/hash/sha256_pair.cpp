#include "image/build/hash/sha256_pair.hpp"

#include <algorithm>

namespace sarus::image::build {

Sha256Pair::Sha256Pair() noexcept {
    for (auto& lane : lanes) {
        lane.state = sha256::startState;
    }
}

void Sha256Pair::Lane::takePartial(std::span<const unsigned char>& data) noexcept {
    total += data.size();
    if (partialSize == 0) {
        return;
    }
    const auto count = std::min(data.size(), blockSize - partialSize);
    std::copy_n(data.begin(), count, partial.begin() + static_cast<std::ptrdiff_t>(partialSize));
    data = data.subspan(count);
    partialSize += count;
    if (partialSize == blockSize) {
        sha256::compress(state, partial.data(), 1);
        partialSize = 0;
    }
}

void Sha256Pair::Lane::takeBlocks(std::span<const unsigned char>& data) noexcept {
    const auto blocks = data.size() / blockSize;
    sha256::compress(state, data.data(), blocks);
    data = data.subspan(blocks * blockSize);
}

void Sha256Pair::Lane::keepRest(std::span<const unsigned char> data) noexcept {
    std::copy(data.begin(), data.end(), partial.begin() + static_cast<std::ptrdiff_t>(partialSize));
    partialSize += data.size();
}

void Sha256Pair::update(std::span<const unsigned char> first,
                        std::span<const unsigned char> second) noexcept {
    lanes[0].takePartial(first);
    lanes[1].takePartial(second);
    const auto common = std::min(first.size(), second.size()) / blockSize;
    if (common > 0) {
        sha256::compressTwo(lanes[0].state, first.data(), lanes[1].state, second.data(), common);
        first = first.subspan(common * blockSize);
        second = second.subspan(common * blockSize);
    }
    lanes[0].takeBlocks(first);
    lanes[1].takeBlocks(second);
    lanes[0].keepRest(first);
    lanes[1].keepRest(second);
}

std::span<const unsigned char> Sha256Pair::updateBeside(std::size_t which,
                                                        std::span<const unsigned char> data,
                                                        BlocksToHash& toHash) noexcept {
    Lane& lane = lanes[which];
    lane.takePartial(data);
    for (; !toHash.done() && data.size() >= fsverity::besideBytes;
         data = data.subspan(fsverity::besideBytes)) {
        toHash.setNext(fsverity::hashBlockBeside(lane.state, data.data(), toHash.next()));
    }
    if (toHash.done()) {
        lane.total -= data.size();
        return data;
    }
    lane.takeBlocks(data);
    lane.keepRest(data);
    return {};
}

Sha256Pair::Value Sha256Pair::finish(std::size_t which) noexcept {
    Lane& lane = lanes[which];
    // A bit of one, zeros, and the number of bits in the last 8 bytes of a block.
    std::array<unsigned char, 2 * blockSize> padding{0x80};
    const auto size = (lane.partialSize < blockSize - 8 ? blockSize : 2 * blockSize) - lane.partialSize;
    const std::uint64_t bits = lane.total * 8;
    for (std::size_t i = 0; i < 8; ++i) {
        padding[size - 1 - i] = static_cast<unsigned char>(bits >> (8 * i));
    }
    std::span<const unsigned char> rest(padding.data(), size);
    lane.takePartial(rest);
    lane.takeBlocks(rest);
    return sha256::bytesOf(lane.state);
}

}  // namespace sarus::image::build
