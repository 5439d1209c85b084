#include "image/build/written_digest.hpp"

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

/// Where the processor has no instructions for SHA-256, the library is faster than our own code.
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

/// The whole blocks of a sequence of pieces; those that do not lie in one piece are copied together.
class WholeBlocks {
public:
    /// `skip`: bytes in front of the first block.
    WholeBlocks(std::span<const struct iovec> pieces, std::size_t skip, std::size_t count) {
        all.reserve(count);
        for (const auto& piece : pieces) {
            const auto* data = static_cast<const unsigned char*>(piece.iov_base);
            std::size_t left = piece.iov_len;
            const auto skipped = std::min(skip, left);
            skip -= skipped;
            data += skipped;
            left -= skipped;
            addTorn(data, left);
            for (; left >= blockSize && torn == 0; data += blockSize, left -= blockSize) {
                all.push_back(data);
            }
            addTorn(data, left);
        }
        all.resize(std::min(all.size(), count));
    }

    const unsigned char* const* list() const noexcept { return all.data(); }
    std::size_t count() const noexcept { return all.size(); }

private:
    /// Adds to a block that a piece before has begun, or begins one with what is less than a block.
    void addTorn(const unsigned char*& data, std::size_t& left) {
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
            all.push_back(copies.back().get());
            torn = 0;
        }
    }

    std::vector<const unsigned char*> all;
    std::vector<std::unique_ptr<unsigned char[]>> copies;
    std::size_t torn = 0;  ///< bytes in the last copy
};

}  // namespace

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
        markLater(begin, std::min(end, highest));  // other threads may be about to hash what was there
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

void WrittenDigest::hash(std::uint64_t begin, std::span<const struct iovec> pieces) {
    std::uint64_t end = begin;
    for (const auto& piece : pieces) {
        end += piece.iov_len;
    }
    const auto first = blocksOf(begin);
    if (first >= end / blockSize) {
        return;
    }
    const WholeBlocks blocks(pieces, static_cast<std::size_t>(first * blockSize - begin),
                             static_cast<std::size_t>(end / blockSize - first));
    std::vector<Hash> done(blocks.count());
    fastest()(blocks.list(), blocks.count(), done.data());
    const std::lock_guard lock(mutex);
    leaves.set(first, done);
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
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(count * blockSize, fileSize - offset));
        readAt(offset, {buffer.data(), size});
        std::fill(buffer.begin() + static_cast<std::ptrdiff_t>(size),
                  buffer.begin() + static_cast<std::ptrdiff_t>(count * blockSize), std::uint8_t{0});
        hashes.resize(count);
        fastest()(blocks.data(), count, hashes.data());
        leaves.set(number, hashes);
    }
    return leaves.digest(fileSize, fastest());
}

}  // namespace sarus::image::build
