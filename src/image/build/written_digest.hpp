#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/fsverity.hpp"

namespace sarus::image::build {

/// Computes the fs-verity digest of a file while it is written, on whichever threads have the bytes at hand. Blocks that were
/// not written at once, or more than once, are hashed at the end.
class WrittenDigest {
public:
    /// Something is written from `begin` to `end`. To be called in the order of the writes. With `hashLater` nobody will call
    /// hash() for it.
    void noteWrite(std::uint64_t begin, std::uint64_t end, bool hashLater);

    /// Hashes the whole blocks of what was written at `begin`, after noteWrite; by any thread, and several at a time.
    void hash(std::uint64_t begin, std::span<const struct iovec> pieces);

    /// Reads bytes of the file from an offset on; throws if there are fewer.
    using ReadAt = std::function<void(std::uint64_t offset, std::span<unsigned char> buffer)>;

    /// "fsverity-sha256:...", when all of the file is there and all threads have returned from hash().
    std::string finish(std::uint64_t fileSize, const ReadAt& readAt);

private:
    void resize(std::uint64_t fileSize);
    void markLater(std::uint64_t begin, std::uint64_t end);

    std::mutex mutex;
    fsverity::Leaves leaves;
    std::vector<bool> later;    ///< blocks to be hashed at the end, whatever hash() says
    std::uint64_t highest = 0;  ///< end of what was written
};

}  // namespace sarus::image::build
