#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.hpp"
#include "image/build/byte_queue.hpp"
#include "image/build/byte_source.hpp"
#include "image/build/decompressor.hpp"
#include "image/build/digest.hpp"
#include "image/build/hash_jobs.hpp"

namespace sarus::image::build {

/// What to do about an image that is larger than the limits.
constexpr const char* unpackedLimitHint =
    "if the image is trustworthy, ask the administrator for a higher imageLimits.maxUnpackedSize";
constexpr const char* entryLimitHint = "if the image is trustworthy, ask the administrator for a higher imageLimits.maxEntries";

/// One layer of an image: a blob and what its bytes must be.
struct Layer {
    std::string path;    ///< file of the blob
    Digest digest;       ///< of the blob
    std::uint64_t size;  ///< of the blob, in bytes
    Digest diffId;       ///< of the uncompressed data
};

/// Counters that other threads may read while a conversion runs.
struct ReadCounters {
    std::atomic<std::uint64_t> blobBytes{0};      ///< read from blobs
    std::atomic<std::uint64_t> unpackedBytes{0};  ///< decompressed
};

/// The uncompressed tar data of a layer, as a stream. Reading, decompression and both digests run on threads of their own; the
/// very bytes that are handed out are those that are hashed, so what was verified is what was used.
class LayerStream final : public ByteSource {
public:
    /// Opens the blob and starts to read ahead. `unpackedLimit`: largest value of counters.unpackedBytes. `jobs`, if any, are
    /// done while there is one digest alone to compute.
    LayerStream(const Layer& layer, ReadCounters& counters, std::uint64_t unpackedLimit, HashJobs* jobs = nullptr);
    LayerStream(const LayerStream&) = delete;
    LayerStream& operator=(const LayerStream&) = delete;
    ~LayerStream() override;

    std::span<const unsigned char> peek() override;
    void consume(std::size_t count) noexcept override { position += count; }
    ChunkPtr chunk() const override { return current; }

    /// Reads what is left, then checks size and digests. Throws Error if the data are not what the manifest says.
    void verify();

private:
    void readBlob();
    void decompress();
    void decompress(ChunkPtr in, Decompressor& decompressor);
    bool emit(ChunkPtr chunk);
    void hash();
    void hashUnpacked();
    void hashBoth();
    void joinAll() noexcept;

    const Layer& layer;
    ReadCounters& counters;
    std::uint64_t limit;
    HashJobs* jobs;
    UniqueFd file;
    ByteQueue compressed;
    ByteQueue toHash;
    ByteQueue unpacked;
    std::optional<Digest> blobDigest;
    std::optional<Digest> unpackedDigest;
    std::uint64_t blobSize = 0;
    bool hashedTwice = true;    ///< blob and unpacked data are not the same
    bool pairedHashes = false;  ///< both are hashed together, on one thread
    ChunkPtr current;
    std::size_t position = 0;
    std::vector<std::thread> threads;
};

}  // namespace sarus::image::build
