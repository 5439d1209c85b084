#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "image/build/bytes/chunk.hpp"
#include "image/build/hash/written_digest.hpp"

namespace sarus::image::build {

/// Blocks of the output to hash.
struct HashJob {
    BlocksToHash toHash;
    std::size_t bytes = 0;        ///< of memory that `keeps` holds
    std::vector<ChunkPtr> keeps;  ///< the owners of the blocks, and of duplicates among them
};

/// The blocks of the output still to hash. They wait for a thread that computes one digest of a layer and can
/// compute a second one alongside. All functions are thread-safe.
class HashPool {
public:
    /// Hashes immediately, on this thread, if enough blocks are already waiting.
    void add(HashJob job);
    /// A job, or nullopt if there is none. Give the job back with end() when all of it is done.
    std::optional<HashJob> take();
    void end(const HashJob& job) { digest.take(job.toHash); }
    /// Hashes everything that waits. No thread may hold a job at that time.
    void finish();

    WrittenDigest& written() noexcept { return digest; }

private:
    WrittenDigest digest;
    std::mutex mutex;
    std::deque<HashJob> waiting;
    std::size_t waitingBytes = 0;
};

}  // namespace sarus::image::build
