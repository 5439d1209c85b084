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

/// The fs-verity digest of a file (Linux kernel, Documentation/filesystems/fsverity.rst, "Merkle tree" and
/// "fs-verity descriptor"): SHA-256, blocks of 4096 bytes, no salt. `fsverity digest` prints the same. Any
/// number of threads can hash blocks in any order.
namespace sarus::fsverity {

constexpr std::size_t blockSize = 4096;

using Hash = std::array<unsigned char, 32>;

/// Hashes `count` blocks of blockSize bytes. A short last block is padded with zeros.
using HashBlocks = void (*)(const unsigned char* const* blocks, std::size_t count, Hash* hashes);

/// Two blocks at a time, with the processor's instructions if it has any.
void hashBlocks(const unsigned char* const* blocks, std::size_t count, Hash* hashes);

/// Hashes one block and continues another digest by `besideBytes` bytes of `data`. Both together cost about
/// as much as one.
constexpr std::size_t besideBytes = blockSize + sha256::blockSize;
Hash hashBlockBeside(sha256::State& other, const unsigned char* data, const unsigned char* block) noexcept;

/// The hashes of a file's blocks: the lowest level of its tree.
class Leaves {
public:
    std::uint64_t count() const noexcept { return used; }
    /// New hashes are zero.
    void resize(std::uint64_t count);
    void resizeFor(std::uint64_t fileSize) { resize((fileSize + blockSize - 1) / blockSize); }
    /// Sets the hashes from block number `first` on. Threads may set different ones at the same time, but not
    /// during a resize.
    void set(std::uint64_t first, std::span<const Hash> hashes) noexcept;

    /// The digest of a file of `fileSize` bytes, as "fsverity-sha256:" and 64 hexadecimal digits.
    std::string digest(std::uint64_t fileSize, HashBlocks hash = hashBlocks) const;

private:
    std::vector<std::unique_ptr<unsigned char[]>> blocks;  ///< of the tree's lowest level
    std::uint64_t used = 0;
};

/// Reads and hashes a file's blocks; each thread has an object of its own.
class FileBlocks {
public:
    static constexpr std::size_t atOnce = 256;

    /// Borrows the descriptor and the name.
    FileBlocks(int fd, std::uint64_t fileSize, std::string_view nameForMessages);

    /// Hashes up to `atOnce` blocks from number `first` on. Throws Error if the file cannot be read or became
    /// shorter.
    void hash(std::uint64_t first, Leaves& leaves);

private:
    void read(std::uint64_t offset, std::span<unsigned char> rest) const;

    int file;
    std::uint64_t size;
    std::string_view name;
    std::vector<unsigned char> buffer;
    std::vector<const unsigned char*> blocks;
    std::vector<Hash> hashes;
};

constexpr std::string_view digestPrefix = "fsverity-sha256:";

/// Whether the text has the form of Leaves::digest.
bool isDigest(std::string_view text) noexcept;

}  // namespace sarus::fsverity
