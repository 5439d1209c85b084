#include "image/build/read/layer_stream.hpp"

#include <algorithm>
#include <array>
#include <deque>

#include "base/error.hpp"
#include "base/text.hpp"
#include "image/build/hash/sha256_pair.hpp"

namespace sarus::image::build {

namespace {

constexpr std::size_t compressedChunk = 256U << 10U;
constexpr std::size_t unpackedChunk = 512U << 10U;
constexpr std::size_t compressedAhead = 1U << 20U;
constexpr std::size_t unpackedAhead = 4U << 20U;
constexpr std::size_t unpairedBytes = 2U << 20U;  // waiting for data of the other digest
constexpr unsigned int unpackedMark = 0;
constexpr unsigned int blobMark = 1;

StoredFile openBlob(const Layer& layer) {
    auto blob = layer.files->open(layer.name);
    if (blob.download) {
        blob.size = layer.size;
    }
    if (blob.size != layer.size) {
        throw Error(
            cat("Layer ", layer.text(), " has ", blob.size, " bytes, but its manifest says ", layer.size),
            "The file is incomplete or damaged: pull the image, or make the archive, again");
    }
    return blob;
}

/// Data of one digest that wait to be hashed.
class Backlog {
public:
    void add(ChunkPtr chunk) {
        total += chunk->bytes().size();
        chunks.push_back(std::move(chunk));
    }
    std::size_t size() const noexcept { return total; }
    std::span<const unsigned char> front() const noexcept {
        return chunks.empty() ? std::span<const unsigned char>() : chunks.front()->bytes().subspan(taken);
    }
    void take(std::size_t count) noexcept {
        total -= count;
        taken += count;
        if (!chunks.empty() && taken == chunks.front()->bytes().size()) {
            chunks.pop_front();
            taken = 0;
        }
    }

private:
    std::deque<ChunkPtr> chunks;
    std::size_t taken = 0;
    std::size_t total = 0;
};

/// Both digests of a layer. Data of one digest wait for data of the other, or for other work to hash
/// alongside.
class TwoDigests {
public:
    explicit TwoDigests(HashPool* hashPool) : hashes(hashPool) {}
    TwoDigests(const TwoDigests&) = delete;
    TwoDigests& operator=(const TwoDigests&) = delete;

    void add(QueuedChunk next) { backlogs[next.mark].add(std::move(next.chunk)); }
    /// Hashes the data of both; data of only one until at most `mayWait` bytes are left.
    void hash(std::size_t mayWait);
    /// The digest of the data added with this mark. Call it once everything is hashed.
    Digest finish(unsigned int mark) { return {"sha256", pair.finish(mark)}; }
    /// Completes the part of a job that was begun.
    void endJob();

private:
    void hashAlone(std::size_t which, std::span<const unsigned char> data);

    HashPool* hashes;
    std::optional<HashJob> job;
    Sha256Pair pair;
    std::array<Backlog, 2> backlogs;
};

void TwoDigests::hash(std::size_t mayWait) {
    while (true) {
        const std::array parts{backlogs[0].front(), backlogs[1].front()};
        if (const auto common = std::min(parts[0].size(), parts[1].size()); common > 0) {
            pair.update(parts[0].first(common), parts[1].first(common));
            backlogs[0].take(common);
            backlogs[1].take(common);
            continue;
        }
        const std::size_t longer = parts[0].empty() ? 1 : 0;
        if (backlogs[longer].size() <= mayWait) {
            return;
        }
        hashAlone(longer, parts[longer]);
        backlogs[longer].take(parts[longer].size());
    }
}

void TwoDigests::hashAlone(std::size_t which, std::span<const unsigned char> data) {
    while (hashes != nullptr && !data.empty()) {
        if (!job) {
            job = hashes->take();
        }
        if (!job) {
            break;
        }
        data = pair.updateBeside(which, data, job->toHash);
        if (job->toHash.done()) {
            hashes->end(*job);
            job.reset();
        }
    }
    if (which == 0) {
        pair.update(data, {});
    } else {
        pair.update({}, data);
    }
}

void TwoDigests::endJob() {
    if (job) {
        job->toHash.hashRest();
        hashes->end(*job);
    }
}

}  // namespace

LayerStream::LayerStream(const Layer& source, ReadCounters& readCounters, std::uint64_t unpackedLimit,
                         HashPool* hashPool)
    : layer(source),
      counters(readCounters),
      limit(unpackedLimit),
      hashes(hashPool),
      blob(openBlob(source)),
      compressed(compressedAhead),
      toHash(unpackedAhead),
      unpacked(unpackedAhead) {
    hashesUnpacked = !layer.digest || !(*layer.digest == layer.diffId);
    pairedHashes = layer.digest && hashesUnpacked && Sha256Pair::available() &&
                   layer.digest->algorithm() == "sha256" && layer.diffId.algorithm() == "sha256";
    try {
        threads.emplace_back([this] { readBlob(); });
        threads.emplace_back([this] { decompress(); });
        threads.emplace_back([this] { hash(); });
    } catch (...) {
        joinAll();
        throw;
    }
}

LayerStream::~LayerStream() {
    joinAll();
}

void LayerStream::joinAll() noexcept {
    compressed.close();
    toHash.close();
    unpacked.close();
    for (auto& thread : threads) {
        if (thread.joinable()) {
            thread.join();
        }
    }
}

/// The next bytes of the blob, which must not be read to its end yet. Waits for a download.
std::size_t LayerStream::readPiece(Chunk& chunk) {
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk.capacity(), blob.size - blobSize));
    while (true) {
        // Before the read, which then finds all that was written.
        const bool isWhole = !blob.download || blob.download->hasEnded();
        const auto count = readAt(blob.file->get(), chunk.data(), wanted, blob.offset + blobSize, layer.name);
        if (count > 0 || isWhole || compressed.isClosed()) {
            if (count == 0 && blob.download) {
                throw Error("the download ended too early");
            }
            chunk.setSize(count);
            return count;
        }
        blob.download->wait();
    }
}

void LayerStream::readBlob() {
    try {
        std::optional<Hasher> hasher;
        if (layer.digest && !pairedHashes) {
            hasher.emplace(layer.digest->algorithm());
        }
        while (blobSize < blob.size) {
            auto chunk = std::make_shared<Chunk>(compressedChunk);
            const auto count = readPiece(*chunk);
            if (count == 0) {
                break;
            }
            blobSize += count;
            counters.blobBytes += count;
            if (pairedHashes) {
                toHash.push(chunk, blobMark);
            }
            if (!compressed.push(chunk)) {
                return;
            }
            if (hasher) {
                hasher->update(chunk->bytes());
            }
        }
        if (hasher) {
            blobDigest = hasher->finish();
        }
        compressed.end();
    } catch (...) {
        compressed.end(std::current_exception());
    }
}

bool LayerStream::emit(ChunkPtr chunk) {
    const auto total = counters.unpackedBytes += chunk->bytes().size();
    if (total > limit) {
        throw Error(cat("The image's layers unpack to more than ", formatSize(limit)), unpackedLimitHint);
    }
    if (hashesUnpacked) {
        toHash.push(chunk, unpackedMark);  // refused only if hashing failed, which verify() reports
    }
    return unpacked.push(std::move(chunk));
}

void LayerStream::decompress() {
    try {
        ChunkPtr first = compressed.pop();
        const auto kind = first ? detectCompression(first->bytes()) : Compression::none;
        if (kind == Compression::none) {
            for (; first && emit(std::move(first)); first = compressed.pop()) {
            }
        } else {
            decompress(std::move(first), *makeDecompressor(kind));
        }
        toHash.end();
        unpacked.end();
    } catch (Error& error) {
        error.addContext(cat("Failed to read layer ", layer.text()));
        toHash.end();
        unpacked.end(std::current_exception());
    } catch (...) {
        toHash.end();
        unpacked.end(std::current_exception());
    }
    compressed.close();
}

void LayerStream::decompress(ChunkPtr in, Decompressor& decompressor) {
    std::size_t offset = 0;
    bool ended = false;
    while (!ended) {
        auto out = std::make_shared<Chunk>(unpackedChunk);
        std::size_t filled = 0;
        while (filled < out->capacity() && !ended) {
            if (in && offset == in->bytes().size()) {
                in = compressed.pop();
                offset = 0;
            }
            const auto input = in ? in->bytes().subspan(offset) : std::span<const unsigned char>();
            const auto step = decompressor.step(input, {out->data() + filled, out->capacity() - filled});
            offset += step.consumed;
            filled += step.produced;
            ended = !in && step.produced == 0;
        }
        out->setSize(filled);
        if (filled > 0 && !emit(std::move(out))) {
            return;
        }
    }
    if (!decompressor.complete()) {
        throw Error("the compressed data end too early");
    }
}

void LayerStream::hash() {
    try {
        if (pairedHashes) {
            hashBoth();
        } else {
            hashUnpacked();
        }
    } catch (const std::exception&) {
        toHash.close();  // verify() reports the missing digest
    }
}

void LayerStream::hashUnpacked() {
    Hasher hasher(layer.diffId.algorithm());
    while (const ChunkPtr chunk = toHash.pop()) {
        hasher.update(chunk->bytes());
    }
    unpackedDigest = hasher.finish();
}

/// All data pass through one queue: with two, one could be full while the other receives nothing.
void LayerStream::hashBoth() {
    TwoDigests digests(hashes);
    for (auto next = toHash.popMarked(); next.chunk; next = toHash.popMarked()) {
        digests.add(std::move(next));
        digests.hash(unpairedBytes);
    }
    digests.hash(0);
    digests.endJob();
    unpackedDigest = digests.finish(unpackedMark);
    blobDigest = digests.finish(blobMark);
}

std::span<const unsigned char> LayerStream::peek() {
    while (!current || position == current->bytes().size()) {
        current = unpacked.pop();
        position = 0;
        if (!current) {
            return {};
        }
    }
    return current->bytes().subspan(position);
}

void LayerStream::verify() {
    while (true) {
        const auto rest = peek();
        if (rest.empty()) {
            break;
        }
        consume(rest.size());
    }
    for (auto& thread : threads) {
        thread.join();
    }
    if (blobSize != layer.size) {
        throw Error(cat("Layer ", layer.text(), " changed its size while it was read"));
    }
    if (layer.digest && (!blobDigest || !(*blobDigest == *layer.digest))) {
        throw Error(cat("The content of layer ", layer.text(), " does not match its digest"),
                    "The file is damaged: pull the image, or make the archive, again");
    }
    if (hashesUnpacked && (!unpackedDigest || !(*unpackedDigest == layer.diffId))) {
        throw Error(cat("The uncompressed content of layer ", layer.text(), " does not match diff_id ",
                        layer.diffId.text(), " of the image's configuration"));
    }
}

}  // namespace sarus::image::build
