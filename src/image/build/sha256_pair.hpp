#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sarus::image::build {

/// Two SHA-256 digests (FIPS 180-4) that are computed at the same time. A processor's SHA instructions wait for each other's
/// results half of the time, and in this half they can work on other data: two digests cost as much as one.
class Sha256Pair {
public:
    using Value = std::array<unsigned char, 32>;

    /// False where this processor has no such instructions; nothing else may be called then.
    static bool available() noexcept;

    Sha256Pair() noexcept;

    /// Continues both digests. One is cheap to compute while the other has as much data left, so give much of both at once.
    void update(std::span<const unsigned char> first, std::span<const unsigned char> second) noexcept;

    /// Ends the computation of one of the digests, 0 or 1; once each.
    Value finish(std::size_t which) noexcept;

private:
    static constexpr std::size_t blockSize = 64;

    struct Lane {
        std::array<std::uint32_t, 8> state;
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
