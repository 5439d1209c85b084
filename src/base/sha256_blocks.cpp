#include "base/sha256_blocks.hpp"

#include <bit>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace sarus::sha256 {

namespace {

alignas(16) constexpr std::array<std::uint32_t, 64> roundConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t bigEndian32(const unsigned char* bytes) noexcept {
    return (std::uint32_t{bytes[0]} << 24) | (std::uint32_t{bytes[1]} << 16) |
           (std::uint32_t{bytes[2]} << 8) | bytes[3];
}

void compressBlock(State& state, const unsigned char* block) noexcept {
    std::array<std::uint32_t, 64> w;
    for (std::size_t i = 0; i < 16; ++i) {
        w[i] = bigEndian32(block + 4 * i);
    }
    for (std::size_t i = 16; i < 64; ++i) {
        const auto s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
        const auto s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 64; ++i) {
        const auto s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        const auto t1 = h + s1 + ((e & f) ^ (~e & g)) + roundConstants[i] + w[i];
        const auto s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        const auto t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const State result{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state.size(); ++i) {
        state[i] += result[i];
    }
}

#ifdef __x86_64__

bool hasInstructions() noexcept {
    unsigned int eax = 0;
    unsigned int ebx = 0;
    unsigned int ecx = 0;
    unsigned int edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_SHA) != 0;
}

/// Continues `lanes` digests by `blocks` blocks each. The instructions expect the state as the words a, b, e,
/// f and c, d, g, h. Each of the 16 steps performs four rounds, and prepares message words for later ones
/// (FIPS 180-4, 6.2.2).
template <std::size_t lanes>
__attribute__((target("sha,sse4.1,ssse3"))) void compressLanes(const std::array<State*, lanes>& states,
                                                               std::array<const unsigned char*, lanes> data,
                                                               std::size_t blocks) noexcept {
    const __m128i bigEndian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abef[lanes];
    __m128i cdgh[lanes];
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        const auto* words = reinterpret_cast<const __m128i*>(states[lane]->data());
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
            const __m128i constants =
                _mm_load_si128(reinterpret_cast<const __m128i*>(roundConstants.data() + 4 * step));
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
        auto* words = reinterpret_cast<__m128i*>(states[lane]->data());
        const __m128i feba = _mm_shuffle_epi32(abef[lane], 0x1B);
        const __m128i dchg = _mm_shuffle_epi32(cdgh[lane], 0xB1);
        _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xF0));
        _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
    }
}

#else

bool hasInstructions() noexcept {
    return false;
}

template <std::size_t lanes>
void compressLanes(const std::array<State*, lanes>&, std::array<const unsigned char*, lanes>,
                   std::size_t) noexcept {}

#endif

}  // namespace

bool accelerated() noexcept {
    static const bool known = hasInstructions();
    return known;
}

void compress(State& state, const unsigned char* data, std::size_t blocks) noexcept {
    if (accelerated()) {
        compressLanes<1>({&state}, {data}, blocks);
    } else {
        compressPortably(state, data, blocks);
    }
}

void compressPortably(State& state, const unsigned char* data, std::size_t blocks) noexcept {
    for (; blocks > 0; --blocks, data += blockSize) {
        compressBlock(state, data);
    }
}

void compressTwo(State& first, const unsigned char* firstData, State& second, const unsigned char* secondData,
                 std::size_t blocks) noexcept {
    if (accelerated()) {
        compressLanes<2>({&first, &second}, {firstData, secondData}, blocks);
        return;
    }
    compress(first, firstData, blocks);
    compress(second, secondData, blocks);
}

std::array<unsigned char, 32> bytesOf(const State& state) noexcept {
    std::array<unsigned char, 32> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<unsigned char>(state[i / 4] >> (24 - 8 * (i % 4)));
    }
    return bytes;
}

}  // namespace sarus::sha256
