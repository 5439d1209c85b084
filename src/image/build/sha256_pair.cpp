#include "image/build/sha256_pair.hpp"

#include <algorithm>
#include <cstring>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace sarus::image::build {

namespace {

constexpr std::array<std::uint32_t, 8> startState{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

#ifdef __x86_64__

alignas(16) constexpr std::array<std::uint32_t, 64> roundConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// Continues `lanes` digests by `blocks` blocks each. The instructions want the state as the words a, b, e, f and c, d, g, h.
/// Each of the 16 steps makes four rounds, and prepares message words for later ones (FIPS 180-4, 6.2.2).
template <std::size_t lanes>
__attribute__((target("sha,sse4.1,ssse3"))) void compress(const std::array<std::uint32_t*, lanes>& states,
                                                          std::array<const unsigned char*, lanes> data,
                                                          std::size_t blocks) noexcept {
    const __m128i bigEndian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abef[lanes];
    __m128i cdgh[lanes];
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        const auto* words = reinterpret_cast<const __m128i*>(states[lane]);
        const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xB1);
        const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1B);
        abef[lane] = _mm_alignr_epi8(badc, hgfe, 8);
        cdgh[lane] = _mm_blend_epi16(hgfe, badc, 0xF0);
    }
    for (; blocks > 0; --blocks) {
        __m128i before[lanes][2];
        __m128i words[lanes][4];
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            before[lane][0] = abef[lane];
            before[lane][1] = cdgh[lane];
            for (std::size_t i = 0; i < 4; ++i) {
                const auto* source = reinterpret_cast<const __m128i*>(data[lane]) + i;
                words[lane][i] = _mm_shuffle_epi8(_mm_loadu_si128(source), bigEndian);
            }
            data[lane] += 64;
        }
#pragma GCC unroll 16
        for (std::size_t step = 0; step < 16; ++step) {
            const __m128i constants = _mm_load_si128(reinterpret_cast<const __m128i*>(roundConstants.data() + 4 * step));
#pragma GCC unroll 2
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                const __m128i now = words[lane][step % 4];
                __m128i& next = words[lane][(step + 1) % 4];
                __m128i& last = words[lane][(step + 3) % 4];
                const __m128i sum = _mm_add_epi32(now, constants);
                cdgh[lane] = _mm_sha256rnds2_epu32(cdgh[lane], abef[lane], sum);
                if (step >= 3 && step < 15) {
                    next = _mm_sha256msg2_epu32(_mm_add_epi32(next, _mm_alignr_epi8(now, last, 4)), now);
                }
                abef[lane] = _mm_sha256rnds2_epu32(abef[lane], cdgh[lane], _mm_shuffle_epi32(sum, 0x0E));
                if (step >= 1 && step < 13) {
                    last = _mm_sha256msg1_epu32(last, now);
                }
            }
        }
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            abef[lane] = _mm_add_epi32(abef[lane], before[lane][0]);
            cdgh[lane] = _mm_add_epi32(cdgh[lane], before[lane][1]);
        }
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        auto* words = reinterpret_cast<__m128i*>(states[lane]);
        const __m128i feba = _mm_shuffle_epi32(abef[lane], 0x1B);
        const __m128i dchg = _mm_shuffle_epi32(cdgh[lane], 0xB1);
        _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xF0));
        _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
    }
}

#else

template <std::size_t lanes>
void compress(const std::array<std::uint32_t*, lanes>&, std::array<const unsigned char*, lanes>, std::size_t) noexcept {}

#endif

}  // namespace

bool Sha256Pair::available() noexcept {
#ifdef __x86_64__
    unsigned int eax = 0;
    unsigned int ebx = 0;
    unsigned int ecx = 0;
    unsigned int edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_SHA) != 0;
#else
    return false;
#endif
}

Sha256Pair::Sha256Pair() noexcept {
    for (auto& lane : lanes) {
        lane.state = startState;
    }
}

void Sha256Pair::Lane::takePartial(std::span<const unsigned char>& data) noexcept {
    total += data.size();
    if (partialSize == 0) {
        return;
    }
    const auto count = std::min(data.size(), blockSize - partialSize);
    std::copy_n(data.begin(), count, partial.begin() + static_cast<std::ptrdiff_t>(partialSize));
    data = data.subspan(count);
    partialSize += count;
    if (partialSize == blockSize) {
        compress<1>({state.data()}, {partial.data()}, 1);
        partialSize = 0;
    }
}

void Sha256Pair::Lane::takeBlocks(std::span<const unsigned char>& data) noexcept {
    const auto blocks = data.size() / blockSize;
    compress<1>({state.data()}, {data.data()}, blocks);
    data = data.subspan(blocks * blockSize);
}

void Sha256Pair::Lane::keepRest(std::span<const unsigned char> data) noexcept {
    std::copy(data.begin(), data.end(), partial.begin() + static_cast<std::ptrdiff_t>(partialSize));
    partialSize += data.size();
}

void Sha256Pair::update(std::span<const unsigned char> first, std::span<const unsigned char> second) noexcept {
    lanes[0].takePartial(first);
    lanes[1].takePartial(second);
    const auto common = std::min(first.size(), second.size()) / blockSize;
    if (common > 0) {
        compress<2>({lanes[0].state.data(), lanes[1].state.data()}, {first.data(), second.data()}, common);
        first = first.subspan(common * blockSize);
        second = second.subspan(common * blockSize);
    }
    lanes[0].takeBlocks(first);
    lanes[1].takeBlocks(second);
    lanes[0].keepRest(first);
    lanes[1].keepRest(second);
}

Sha256Pair::Value Sha256Pair::finish(std::size_t which) noexcept {
    Lane& lane = lanes[which];
    // A bit of one, zeros, and the number of bits in the last 8 bytes of a block.
    std::array<unsigned char, 2 * blockSize> padding{0x80};
    const auto size = (lane.partialSize < blockSize - 8 ? blockSize : 2 * blockSize) - lane.partialSize;
    const std::uint64_t bits = lane.total * 8;
    for (std::size_t i = 0; i < 8; ++i) {
        padding[size - 1 - i] = static_cast<unsigned char>(bits >> (8 * i));
    }
    std::span<const unsigned char> rest(padding.data(), size);
    lane.takePartial(rest);
    lane.takeBlocks(rest);
    Value value;
    for (std::size_t i = 0; i < value.size(); ++i) {
        value[i] = static_cast<unsigned char>(lane.state[i / 4] >> (24 - 8 * (i % 4)));
    }
    return value;
}

}  // namespace sarus::image::build
