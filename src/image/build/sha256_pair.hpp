#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/sha256_blocks.hpp"
#include "image/build/written_digest.hpp"

namespace sarus::image::build {

/// Two SHA-256 digests (FIPS 180-4) that are computed at the same time. A processor's SHA instructions wait for each other's
/// results half of the time, and in this half they can work on other data: two digests cost as much as one.
class Sha256Pair {
public:
    using Value = std::array<unsigned char, 32>;

    /// Whether this saves time on this processor; it works on all.
    static bool available() noexcept { return sha256::accelerated(); }

    Sha256Pair() noexcept;

    /// Continues both digests. One is cheap to compute while the other has as much data left, so give much of both at once.
    void update(std::span<const unsigned char> first, std::span<const unsigned char> second) noexcept;

    /// Continues one of them alone, and hashes blocks beside it, until all blocks or all data are used up. Returns what is left
    /// of the data.
    std::span<const unsigned char> updateBeside(std::size_t which, std::span<const unsigned char> data,
                                                BlocksToHash& toHash) noexcept;

    /// Ends the computation of one of the digests, 0 or 1; once each.
    Value finish(std::size_t which) noexcept;

private:
    static constexpr std::size_t blockSize = sha256::blockSize;

    struct Lane {
        sha256::State state;
        std::array<unsigned char, blockSize> partial;
        std::size_t partialSize = 0;
        std::uint64_t total = 0;

        void takePartial(std::span<const unsigned char>& data) noexcept;
        void takeBlocks(std::span<const unsigned char>& data) noexcept;
        void keepRest(std::span<const unsigned char> data) noexcept;
    };

    std::array<Lane, 2> lanes;
};

}  // namespace sarus::image::build
