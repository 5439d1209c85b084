#include "base/fsverity.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"

namespace sarus::fsverity {

namespace {

/// What follows a message of one block's length (FIPS 180-4, 5.1.1): a bit of one, zeros, and the number of
/// bits.
constexpr std::array<unsigned char, sha256::blockSize> makePadding() {
    std::array<unsigned char, sha256::blockSize> padding{0x80};
    constexpr std::size_t bits = blockSize * 8;
    padding[62] = bits >> 8U;
    padding[63] = bits & 0xFFU;
    return padding;
}
constexpr auto padding = makePadding();
static_assert(blockSize * 8 < 1U << 16U);

constexpr std::size_t parts = blockSize / sha256::blockSize;
constexpr std::size_t hashesPerBlock = blockSize / sizeof(Hash);

using Blocks = std::vector<std::unique_ptr<unsigned char[]>>;

Hash* slot(const Blocks& blocks, std::uint64_t number) {
    return reinterpret_cast<Hash*>(blocks[number / hashesPerBlock].get()) + number % hashesPerBlock;
}

void resizeTo(Blocks& blocks, std::uint64_t hashes) {
    const auto wanted = (hashes + hashesPerBlock - 1) / hashesPerBlock;
    blocks.resize(std::min<std::uint64_t>(blocks.size(), wanted));
    while (blocks.size() < wanted) {
        blocks.push_back(std::make_unique<unsigned char[]>(blockSize));
    }
}

}  // namespace

void hashBlocks(const unsigned char* const* blocks, std::size_t count, Hash* hashes) {
    for (; count > 1; count -= 2, blocks += 2, hashes += 2) {
        auto first = sha256::startState;
        auto second = sha256::startState;
        sha256::compressTwo(first, blocks[0], second, blocks[1], parts);
        sha256::compressTwo(first, padding.data(), second, padding.data(), 1);
        hashes[0] = sha256::bytesOf(first);
        hashes[1] = sha256::bytesOf(second);
    }
    if (count > 0) {
        auto state = sha256::startState;
        sha256::compress(state, blocks[0], parts);
        sha256::compress(state, padding.data(), 1);
        hashes[0] = sha256::bytesOf(state);
    }
}

Hash hashBlockBeside(sha256::State& other, const unsigned char* data, const unsigned char* block) noexcept {
    auto state = sha256::startState;
    sha256::compressTwo(other, data, state, block, parts);
    sha256::compressTwo(other, data + blockSize, state, padding.data(), 1);
    return sha256::bytesOf(state);
}

void Leaves::resize(std::uint64_t count) {
    resizeTo(blocks, count);
    for (; used > count; --used) {
        if ((used - 1) / hashesPerBlock < blocks.size()) {
            *slot(blocks, used - 1) = Hash{};
        }
    }
    used = count;
}

void Leaves::set(std::uint64_t first, std::span<const Hash> hashes) noexcept {
    for (const auto& hash : hashes) {
        *slot(blocks, first++) = hash;
    }
}

std::string Leaves::digest(std::uint64_t fileSize, HashBlocks hash) const {
    Blocks level;
    const Blocks* below = &blocks;
    auto count = used;
    while (count > 1) {
        std::vector<const unsigned char*> list;
        for (const auto& block : *below) {
            list.push_back(block.get());
        }
        std::vector<Hash> hashes(list.size());
        hash(list.data(), list.size(), hashes.data());
        count = hashes.size();
        level.clear();
        resizeTo(level, count);
        for (std::size_t i = 0; i < count; ++i) {
            *slot(level, i) = hashes[i];
        }
        below = &level;
    }
    // struct fsverity_descriptor: version, algorithm (1: SHA-256), logarithm of the block size, no salt, 4
    // reserved bytes, the size as little-endian number, 64 bytes for the root hash (zero for an empty file),
    // and 176 of salt and reserved bytes.
    std::string descriptor(256, '\0');
    descriptor[0] = 1;
    descriptor[1] = 1;
    descriptor[2] = 12;
    for (std::size_t i = 0; i < 8; ++i) {
        descriptor[8 + i] = static_cast<char>(fileSize >> (8 * i));
    }
    if (count > 0) {
        const Hash& root = *slot(*below, 0);
        std::copy(root.begin(), root.end(), descriptor.begin() + 16);
    }
    return cat(digestPrefix, sha256Hex(descriptor));
}

FileBlocks::FileBlocks(int fd, std::uint64_t fileSize, std::string_view nameForMessages)
    : file(fd),
      size(fileSize),
      name(nameForMessages),
      buffer(atOnce * blockSize),
      blocks(atOnce),
      hashes(atOnce) {
    for (std::size_t i = 0; i < atOnce; ++i) {
        blocks[i] = buffer.data() + i * blockSize;
    }
}

void FileBlocks::hash(std::uint64_t first, Leaves& leaves) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(atOnce, leaves.count() - first));
    read(first * blockSize, {buffer.data(), count * blockSize});
    hashBlocks(blocks.data(), count, hashes.data());
    leaves.set(first, {hashes.data(), count});
}

/// Bytes after the end of the file are zero.
void FileBlocks::read(std::uint64_t offset, std::span<unsigned char> rest) const {
    while (!rest.empty()) {
        const auto got = ::pread(file, rest.data(), rest.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        checkErrno(got, cat("Failed to read ", name));
        if (got == 0) {
            break;
        }
        rest = rest.subspan(static_cast<std::size_t>(got));
        offset += static_cast<std::uint64_t>(got);
    }
    if (offset < size && !rest.empty()) {
        throw Error(cat("Failed to read ", name, ": it became shorter meanwhile"));
    }
    std::fill(rest.begin(), rest.end(), std::uint8_t{0});
}

bool isDigest(std::string_view text) noexcept {
    return text.starts_with(digestPrefix) && text.size() == digestPrefix.size() + 2 * sizeof(Hash) &&
           isHex(text.substr(digestPrefix.size()));
}

}  // namespace sarus::fsverity
