#include "base/sha256.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

constexpr std::array<std::uint32_t, 64> roundConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t bigEndian32(const unsigned char* bytes) noexcept {
    return (std::uint32_t{bytes[0]} << 24) | (std::uint32_t{bytes[1]} << 16) | (std::uint32_t{bytes[2]} << 8) | bytes[3];
}

}  // namespace

void Sha256::processBlock(const unsigned char* block) noexcept {
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
    const std::array<std::uint32_t, 8> result{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < state.size(); ++i) {
        state[i] += result[i];
    }
}

void Sha256::update(std::string_view data) noexcept {
    totalBytes += data.size();
    const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
    auto left = data.size();
    if (pendingSize > 0) {
        const auto taken = std::min(left, pending.size() - pendingSize);
        std::memcpy(pending.data() + pendingSize, bytes, taken);
        pendingSize += taken;
        bytes += taken;
        left -= taken;
        if (pendingSize < pending.size()) {
            return;
        }
        processBlock(pending.data());
        pendingSize = 0;
    }
    for (; left >= pending.size(); bytes += pending.size(), left -= pending.size()) {
        processBlock(bytes);
    }
    if (left > 0) {
        std::memcpy(pending.data(), bytes, left);
        pendingSize = left;
    }
}

std::string Sha256::finishHex() {
    const std::uint64_t bits = totalBytes * 8;
    std::string padding(1, '\x80');
    padding.append((pending.size() + 55 - pendingSize) % pending.size(), '\0');
    for (int shift = 56; shift >= 0; shift -= 8) {
        padding += static_cast<char>(bits >> shift);
    }
    update(padding);
    constexpr std::string_view digits = "0123456789abcdef";
    std::string hex;
    for (const auto word : state) {
        for (int shift = 28; shift >= 0; shift -= 4) {
            hex += digits[(word >> shift) & 15];
        }
    }
    return hex;
}

std::string sha256Hex(std::string_view data) {
    Sha256 sha;
    sha.update(data);
    return sha.finishHex();
}

std::string sha256HexOfFile(int fd, std::string_view nameForMessages) {
    Sha256 sha;
    std::vector<char> buffer(1U << 20U);
    while (true) {
        const auto count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        checkErrno(count, cat("Failed to read ", nameForMessages));
        if (count == 0) {
            return sha.finishHex();
        }
        sha.update({buffer.data(), static_cast<std::size_t>(count)});
    }
}

}  // namespace sarus
