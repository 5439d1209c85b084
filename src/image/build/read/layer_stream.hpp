#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "image/build/bytes/byte_queue.hpp"
#include "image/build/bytes/byte_source.hpp"
#include "image/build/hash/hash_pool.hpp"
#include "image/build/hash/hasher.hpp"
#include "image/build/read/decompressor.hpp"
#include "image/build/read/source_files.hpp"

namespace sarus::image::build {

/// The hint for an image that exceeds the limits.
constexpr const char* unpackedLimitHint =
    "if the image is trustworthy, ask the administrator for a higher imageLimits.maxUnpackedSize";
constexpr const char* entryLimitHint =
    "if the image is trustworthy, ask the administrator for a higher imageLimits.maxEntries";

/// One layer of an image: a blob and its expected content.
struct Layer {
    std::shared_ptr<const SourceFiles> files;
    std::string name;              ///< of the blob among the files
    std::optional<Digest> digest;  ///< of the blob; absent if unknown
    std::uint64_t size;            ///< of the blob, in bytes
    Digest diffId;                 ///< of the uncompressed data

    /// The name of the layer in messages.
    const std::string& text() const noexcept { return (digest ? *digest : diffId).text(); }
};

/// Counters that other threads may read while a conversion runs.
struct ReadCounters {
    std::atomic<std::uint64_t> blobBytes{0};      ///< read from blobs
    std::atomic<std::uint64_t> unpackedBytes{0};  ///< decompressed
};

/// The uncompressed tar data of a layer, as a stream. Reading, decompression and both digests run on separate
/// threads. The bytes returned are the very bytes that are hashed.
class LayerStream final : public ByteSource {
public:
    /// Opens the blob and starts to read ahead. `unpackedLimit`: maximum of counters.unpackedBytes. Hashes
    /// jobs of `hashPool`, if given, while only one digest has data.
    LayerStream(const Layer& layer, ReadCounters& counters, std::uint64_t unpackedLimit,
                HashPool* hashPool = nullptr);
    LayerStream(const LayerStream&) = delete;
    LayerStream& operator=(const LayerStream&) = delete;
    ~LayerStream() override;

    std::span<const unsigned char> peek() override;
    void consume(std::size_t count) noexcept override { position += count; }
    ChunkPtr chunk() const override { return current; }

    /// Reads the rest, then checks size and digests. Throws Error if the data do not match the manifest.
    void verify();

private:
    void readBlob();
    std::size_t readPiece(Chunk& chunk);
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
    HashPool* hashes;
    StoredFile blob;
    ByteQueue compressed;
    ByteQueue toHash;
    ByteQueue unpacked;
    std::optional<Digest> blobDigest;
    std::optional<Digest> unpackedDigest;
    std::uint64_t blobSize = 0;
    bool hashesUnpacked = true;  ///< false if they are the blob itself
    bool pairedHashes = false;   ///< one thread computes both
    ChunkPtr current;
    std::size_t position = 0;
    std::vector<std::thread> threads;
};

}  // namespace sarus::image::build
