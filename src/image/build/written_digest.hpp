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

/// The whole blocks of a piece of a file, which are hashed one after the other.
class BlocksToHash {
public:
    BlocksToHash() = default;

    /// Of what was written at `begin`; the pieces must stay until all is done.
    BlocksToHash(std::uint64_t begin, std::span<const struct iovec> pieces);

    bool done() const noexcept { return hashed == blocks.size(); }
    /// The block that is to be hashed next, unless all is done.
    const unsigned char* next() const noexcept { return blocks[hashed]; }
    void setNext(const fsverity::Hash& hash) noexcept { hashes[hashed++] = hash; }
    void hashRest();

    /// The number of the first block, and all hashes when all is done.
    std::uint64_t firstNumber() const noexcept { return first; }
    std::span<const fsverity::Hash> all() const noexcept { return hashes; }

private:
    void add(const unsigned char* data, std::size_t size);
    void addTorn(const unsigned char*& data, std::size_t& left);

    std::uint64_t first = 0;
    std::vector<const unsigned char*> blocks;
    std::vector<std::unique_ptr<unsigned char[]>> copies;  ///< of blocks that do not lie in one piece
    std::size_t torn = 0;                                  ///< bytes in the last copy
    std::vector<fsverity::Hash> hashes;
    std::size_t hashed = 0;
};

/// Computes the fs-verity digest of a file while it is written, on whichever threads have the bytes at hand. Blocks that were
/// not written at once, or more than once, are hashed at the end.
class WrittenDigest {
public:
    /// Something is written from `begin` to `end`. To be called in the order of the writes. With `hashLater` nobody will call
    /// take() for it.
    void noteWrite(std::uint64_t begin, std::uint64_t end, bool hashLater);

    /// Takes the hashes of what was written, after noteWrite; from any thread, and in any order.
    void take(const BlocksToHash& done);

    /// Reads bytes of the file from an offset on; throws if there are fewer.
    using ReadAt = std::function<void(std::uint64_t offset, std::span<unsigned char> buffer)>;

    /// "fsverity-sha256:...", when all of the file is there and all hashes were taken.
    std::string finish(std::uint64_t fileSize, const ReadAt& readAt);

private:
    void resize(std::uint64_t fileSize);
    void markLater(std::uint64_t begin, std::uint64_t end);

    std::mutex mutex;
    fsverity::Leaves leaves;
    std::vector<bool> later;    ///< blocks to be hashed at the end, whatever was taken
    std::uint64_t highest = 0;  ///< end of what was written
};

}  // namespace sarus::image::build
