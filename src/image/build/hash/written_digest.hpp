#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/fsverity.hpp"

namespace sarus::image::build {

/// The whole blocks of a piece of a file, to hash one after the other.
class BlocksToHash {
public:
    BlocksToHash() = default;

    /// For data written at `begin`. The pieces must stay valid until all blocks are hashed.
    BlocksToHash(std::uint64_t begin, std::span<const struct iovec> pieces);

    bool done() const noexcept { return hashed == blocks.size(); }
    /// The next block to hash; only if there is one.
    const unsigned char* next() const noexcept { return blocks[hashed]; }
    void setNext(const fsverity::Hash& hash) noexcept { hashes[hashed++] = hash; }
    void hashRest();

    /// The number of the first block; all hashes, once all blocks are hashed.
    std::uint64_t firstNumber() const noexcept { return first; }
    std::span<const fsverity::Hash> all() const noexcept { return hashes; }

private:
    void add(const unsigned char* data, std::size_t size);
    void addTorn(const unsigned char*& data, std::size_t& left);

    std::uint64_t first = 0;
    std::vector<const unsigned char*> blocks;
    std::vector<std::unique_ptr<unsigned char[]>> copies;  ///< of blocks split across pieces
    std::size_t torn = 0;                                  ///< bytes in the last copy
    std::vector<fsverity::Hash> hashes;
    std::size_t hashed = 0;
};

/// Computes the fs-verity digest of a file while it is being written, on any thread that has the bytes.
/// Hashes blocks written in parts or repeatedly at the end.
class WrittenDigest {
public:
    /// Announces a write from `begin` to `end`. Call it in the order of the writes. With `hashLater`, take()
    /// is not called for it.
    void noteWrite(std::uint64_t begin, std::uint64_t end, bool hashLater);

    /// Takes the hashes of written blocks, after noteWrite; thread-safe, in any order.
    void take(const BlocksToHash& done);

    /// Reads bytes of the file at an offset; throws if the file is too short.
    using ReadAt = std::function<void(std::uint64_t offset, std::span<unsigned char> buffer)>;

    /// "fsverity-sha256:...", once the file is complete and all hashes were taken. May be repeated after
    /// further writes.
    std::string finish(std::uint64_t fileSize, const ReadAt& readAt);

private:
    void resize(std::uint64_t fileSize);
    void markLater(std::uint64_t begin, std::uint64_t end);

    std::mutex mutex;
    fsverity::Leaves leaves;
    std::vector<bool> later;    ///< blocks to hash at the end, whatever was taken
    std::uint64_t highest = 0;  ///< end of what was written
};

}  // namespace sarus::image::build
