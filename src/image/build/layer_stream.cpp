#include "image/build/layer_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/build/sha256_pair.hpp"

namespace sarus::image::build {

namespace {

constexpr std::size_t compressedChunk = 256U << 10U;
constexpr std::size_t unpackedChunk = 512U << 10U;
constexpr std::size_t compressedAhead = 1U << 20U;
constexpr std::size_t unpackedAhead = 4U << 20U;
constexpr std::size_t unpairedBytes = 2U << 20U;  // that wait for data of the other digest
constexpr unsigned int unpackedMark = 0;
constexpr unsigned int blobMark = 1;

UniqueFd openBlob(const Layer& layer) {
    UniqueFd file = openFile(layer.path, O_RDONLY | O_NONBLOCK);
    struct stat status {};
    checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", layer.path));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat("Layer ", layer.digest.text(), " is not a regular file"));
    }
    if (static_cast<std::uint64_t>(status.st_size) != layer.size) {
        throw Error(cat("Layer ", layer.digest.text(), " has ", status.st_size, " bytes, but its manifest says ", layer.size),
                    "the download is incomplete or damaged: remove it and pull the image again");
    }
    return file;
}

/// Data of one digest which wait to be hashed.
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

/// Both digests of a layer, of data that wait for data of the other one, or for other work that can be done beside them.
class TwoDigests {
public:
    explicit TwoDigests(HashJobs* hashJobs) : jobs(hashJobs) {}
    TwoDigests(const TwoDigests&) = delete;
    TwoDigests& operator=(const TwoDigests&) = delete;

    void add(QueuedChunk next) { backlogs[next.mark].add(std::move(next.chunk)); }
    /// Hashes what there is of both; of one alone only as far as no more than `mayWait` bytes are left.
    void hash(std::size_t mayWait);
    /// The digest of what was added with this mark. To be called when everything is hashed.
    Digest finish(unsigned int mark) { return sha256Digest(pair.finish(mark)); }
    /// Does what was begun of a job.
    void endJob();

private:
    void hashAlone(std::size_t which, std::span<const unsigned char> data);

    HashJobs* jobs;
    std::unique_ptr<HashJob> job;
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
    while (jobs != nullptr && !data.empty()) {
        if (!job) {
            job = jobs->takeJob();
        }
        if (!job) {
            break;
        }
        data = pair.updateBeside(which, data, job->toHash);
        if (job->toHash.done()) {
            jobs->endJob(std::move(job));
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
        jobs->endJob(std::move(job));
    }
}

}  // namespace

LayerStream::LayerStream(const Layer& source, ReadCounters& readCounters, std::uint64_t unpackedLimit, HashJobs* hashJobs)
    : layer(source),
      counters(readCounters),
      limit(unpackedLimit),
      jobs(hashJobs),
      file(openBlob(source)),
      compressed(compressedAhead),
      toHash(unpackedAhead),
      unpacked(unpackedAhead) {
    hashedTwice = !(layer.digest == layer.diffId);
    pairedHashes =
        hashedTwice && Sha256Pair::available() && layer.digest.algorithm() == "sha256" && layer.diffId.algorithm() == "sha256";
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

void LayerStream::readBlob() {
    try {
        Hasher hasher(layer.digest.algorithm());
        while (true) {
            auto chunk = std::make_shared<Chunk>(compressedChunk);
            const auto count = ::read(file.get(), chunk->data(), chunk->capacity());
            if (count < 0) {
                if (errno == EINTR) {
                    continue;
                }
                throwErrno(cat("Failed to read ", layer.path));
            }
            if (count == 0) {
                break;
            }
            chunk->setSize(static_cast<std::size_t>(count));
            blobSize += static_cast<std::uint64_t>(count);
            counters.blobBytes += static_cast<std::uint64_t>(count);
            if (pairedHashes) {
                toHash.push(chunk, blobMark);
            }
            if (!compressed.push(chunk)) {
                return;
            }
            if (!pairedHashes) {
                hasher.update(chunk->bytes());
            }
        }
        if (!pairedHashes) {
            blobDigest = hasher.finish();
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
    if (hashedTwice) {
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
        error.addContext(cat("Failed to read layer ", layer.digest.text()));
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
        toHash.close();  // verify() reports that there is no digest
    }
}

void LayerStream::hashUnpacked() {
    Hasher hasher(layer.diffId.algorithm());
    while (const ChunkPtr chunk = toHash.pop()) {
        hasher.update(chunk->bytes());
    }
    unpackedDigest = hasher.finish();
}

/// All data come through one queue: with two, one could be full while nothing arrives in the other.
void LayerStream::hashBoth() {
    TwoDigests digests(jobs);
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
        throw Error(cat("Layer ", layer.digest.text(), " changed its size while it was read"));
    }
    if (!blobDigest || !(*blobDigest == layer.digest)) {
        throw Error(cat("The content of layer ", layer.digest.text(), " does not match its digest"),
                    "the file is damaged: remove it and pull the image again");
    }
    if (hashedTwice && (!unpackedDigest || !(*unpackedDigest == layer.diffId))) {
        throw Error(cat("The uncompressed content of layer ", layer.digest.text(), " does not match diff_id ",
                        layer.diffId.text(), " of the image's configuration"));
    }
}

}  // namespace sarus::image::build
