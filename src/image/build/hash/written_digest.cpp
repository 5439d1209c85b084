#include "image/build/hash/written_digest.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "base/sha256_blocks.hpp"

namespace sarus::image::build {

namespace {

using fsverity::blockSize;
using fsverity::Hash;

/// If the processor lacks instructions for SHA-256, the library is faster than our own code.
void hashWithLibrary(const unsigned char* const* blocks, std::size_t count, Hash* hashes) {
    for (std::size_t i = 0; i < count; ++i) {
        if (EVP_Digest(blocks[i], blockSize, hashes[i].data(), nullptr, EVP_sha256(), nullptr) != 1) {
            throw Error("Failed to compute sha256");
        }
    }
}

fsverity::HashBlocks fastest() {
    return sha256::accelerated() ? fsverity::hashBlocks : hashWithLibrary;
}

std::uint64_t blocksOf(std::uint64_t size) {
    return (size + blockSize - 1) / blockSize;
}

}  // namespace

BlocksToHash::BlocksToHash(std::uint64_t begin, std::span<const struct iovec> pieces)
    : first(blocksOf(begin)) {
    auto skip = static_cast<std::size_t>(first * blockSize - begin);
    for (const auto& piece : pieces) {
        const auto skipped = std::min(skip, piece.iov_len);
        skip -= skipped;
        add(static_cast<const unsigned char*>(piece.iov_base) + skipped, piece.iov_len - skipped);
    }
    hashes.resize(blocks.size());
}

void BlocksToHash::add(const unsigned char* data, std::size_t size) {
    addTorn(data, size);
    for (; size >= blockSize && torn == 0; data += blockSize, size -= blockSize) {
        blocks.push_back(data);
    }
    addTorn(data, size);
}

/// Adds to a block begun by the previous piece, or begins one with less than a block of data.
void BlocksToHash::addTorn(const unsigned char*& data, std::size_t& left) {
    if (left == 0 || (torn == 0 && left >= blockSize)) {
        return;
    }
    if (torn == 0) {
        copies.push_back(std::make_unique<unsigned char[]>(blockSize));
    }
    const auto part = std::min(left, blockSize - torn);
    std::memcpy(copies.back().get() + torn, data, part);
    data += part;
    left -= part;
    torn += part;
    if (torn == blockSize) {
        blocks.push_back(copies.back().get());
        torn = 0;
    }
}

void BlocksToHash::hashRest() {
    fastest()(blocks.data() + hashed, blocks.size() - hashed, hashes.data() + hashed);
    hashed = blocks.size();
}

void WrittenDigest::resize(std::uint64_t fileSize) {
    if (blocksOf(fileSize) > leaves.count()) {
        leaves.resize(blocksOf(fileSize));
        later.resize(blocksOf(fileSize));
    }
}

void WrittenDigest::markLater(std::uint64_t begin, std::uint64_t end) {
    if (begin < end) {
        std::fill(later.begin() + static_cast<std::ptrdiff_t>(begin / blockSize),
                  later.begin() + static_cast<std::ptrdiff_t>(blocksOf(end)), true);
    }
}

void WrittenDigest::noteWrite(std::uint64_t begin, std::uint64_t end, bool hashLater) {
    const std::lock_guard lock(mutex);
    resize(std::max(highest, end));
    if (begin < highest) {
        markLater(begin, std::min(end, highest));  // other threads may be about to hash the old content
    } else if (begin > highest) {
        markLater(highest, begin);
    }
    if (hashLater) {
        markLater(begin, end);
    } else {
        markLater(begin, begin + (begin % blockSize == 0 ? 0 : 1));
        markLater(end, end + (end % blockSize == 0 ? 0 : 1));
    }
    highest = std::max(highest, end);
}

void WrittenDigest::take(const BlocksToHash& done) {
    const std::lock_guard lock(mutex);
    leaves.set(done.firstNumber(), done.all());
}

std::string WrittenDigest::finish(std::uint64_t fileSize, const ReadAt& readAt) {
    constexpr std::size_t mostAtOnce = 256;
    resize(fileSize);
    if (fileSize > highest) {
        markLater(highest, fileSize);
    }
    leaves.resize(blocksOf(fileSize));
    later.resize(blocksOf(fileSize));
    std::vector<unsigned char> buffer(mostAtOnce * blockSize);
    std::vector<const unsigned char*> blocks(mostAtOnce);
    std::vector<Hash> hashes;
    for (std::size_t i = 0; i < mostAtOnce; ++i) {
        blocks[i] = buffer.data() + i * blockSize;
    }
    for (auto next = std::find(later.begin(), later.end(), true); next != later.end();
         next = std::find(next, later.end(), true)) {
        const auto number = static_cast<std::size_t>(next - later.begin());
        std::size_t count = 0;
        for (; next != later.end() && *next && count < mostAtOnce; ++next) {
            ++count;
        }
        const auto offset = std::uint64_t{number} * blockSize;
        const auto size =
            static_cast<std::size_t>(std::min<std::uint64_t>(count * blockSize, fileSize - offset));
        readAt(offset, {buffer.data(), size});
        std::fill(buffer.begin() + static_cast<std::ptrdiff_t>(size),
                  buffer.begin() + static_cast<std::ptrdiff_t>(count * blockSize), std::uint8_t{0});
        hashes.resize(count);
        fastest()(blocks.data(), count, hashes.data());
        leaves.set(number, hashes);
    }
    std::fill(later.begin(), later.end(), false);
    highest = fileSize;
    return leaves.digest(fileSize, fastest());
}

}  // namespace sarus::image::build
