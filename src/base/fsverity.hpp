#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256_blocks.hpp"

/// The fs-verity digest of a file (Linux kernel, Documentation/filesystems/fsverity.rst, "Merkle tree" and "fs-verity
/// descriptor"): SHA-256, blocks of 4096 bytes, no salt; what `fsverity digest` prints. Blocks are hashed independently of each
/// other, in any order and on any number of threads.
namespace sarus::fsverity {

constexpr std::size_t blockSize = 4096;

using Hash = std::array<unsigned char, 32>;

/// Hashes `count` blocks, each of blockSize bytes; what a file lacks in its last block is zero.
using HashBlocks = void (*)(const unsigned char* const* blocks, std::size_t count, Hash* hashes);

/// Two blocks at a time, with the processor's instructions if there are any.
void hashBlocks(const unsigned char* const* blocks, std::size_t count, Hash* hashes);

/// Hashes one block beside another digest, which continues by `besideBytes` bytes of `data`: they cost about as much together as
/// one of them alone.
constexpr std::size_t besideBytes = blockSize + sha256::blockSize;
Hash hashBlockBeside(sha256::State& other, const unsigned char* data, const unsigned char* block) noexcept;

/// The hashes of a file's blocks, which are the lowest level of its tree.
class Leaves {
public:
    std::uint64_t count() const noexcept { return used; }
    /// New hashes are zero.
    void resize(std::uint64_t blocks);
    /// Sets the hashes from block number `first` on. Threads may set different ones at the same time, but not during a resize.
    void set(std::uint64_t first, std::span<const Hash> hashes) noexcept;

    /// The digest of a file of `fileSize` bytes, as "fsverity-sha256:" and 64 hexadecimal digits.
    std::string digest(std::uint64_t fileSize, HashBlocks hash = hashBlocks) const;

private:
    std::vector<std::unique_ptr<unsigned char[]>> blocks;  ///< of the tree's lowest level
    std::uint64_t used = 0;
};

constexpr std::string_view digestPrefix = "fsverity-sha256:";

/// Whether the whole text is what Leaves::digest returns.
bool isDigest(std::string_view text) noexcept;

}  // namespace sarus::fsverity
