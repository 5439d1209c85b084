#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/sha256_blocks.hpp"
#include "image/build/hash/written_digest.hpp"

namespace sarus::image::build {

/// Two SHA-256 digests (FIPS 180-4) computed at the same time. A processor's SHA instructions wait for each
/// other's results half of the time and can process other data meanwhile, so two digests cost as much as one.
class Sha256Pair {
public:
    using Value = std::array<unsigned char, 32>;

    /// Whether this saves time on this processor; it works on all.
    static bool available() noexcept { return sha256::accelerated(); }

    Sha256Pair() noexcept;

    /// Continues both digests. Pass large parts: the second digest is cheap only while both have data.
    void update(std::span<const unsigned char> first, std::span<const unsigned char> second) noexcept;

    /// Continues one of them and hashes blocks alongside, until all blocks or all data are used up. Returns
    /// the remaining data.
    std::span<const unsigned char> updateBeside(std::size_t which, std::span<const unsigned char> data,
                                                BlocksToHash& toHash) noexcept;

    /// Finishes one of the digests, 0 or 1; once each.
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
