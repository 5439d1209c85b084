#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// The inner function of SHA-256 (FIPS 180-4, 6.2.2), with the processor's own instructions if it has them.
namespace sarus::sha256 {

constexpr std::size_t blockSize = 64;

using State = std::array<std::uint32_t, 8>;
constexpr State startState{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/// Whether this processor has SHA-256 instructions. The functions below work everywhere, but are several
/// times slower without them.
bool accelerated() noexcept;

/// Continues a digest by `blocks` blocks.
void compress(State& state, const unsigned char* data, std::size_t blocks) noexcept;

/// The same without the processor's instructions.
void compressPortably(State& state, const unsigned char* data, std::size_t blocks) noexcept;

/// Continues two digests by `blocks` blocks each. The instructions wait for each other's results half of the
/// time and can work on other data meanwhile, so two digests cost about as much as one.
void compressTwo(State& first, const unsigned char* firstData, State& second, const unsigned char* secondData,
                 std::size_t blocks) noexcept;

/// The bytes of a digest after its last block.
std::array<unsigned char, 32> bytesOf(const State& state) noexcept;

}  // namespace sarus::sha256
