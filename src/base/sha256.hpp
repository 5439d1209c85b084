#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sarus {

/// SHA-256 (FIPS 180-4) for programs that must start fast and therefore link no cryptographic library.
class Sha256 {
public:
    void update(std::string_view data) noexcept;
    /// Ends the computation: the digest in 64 lower-case hexadecimal digits. The object may not be used afterwards.
    std::string finishHex();

private:
    void processBlock(const unsigned char* block) noexcept;

    std::array<std::uint32_t, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<unsigned char, 64> pending{};
    std::size_t pendingSize = 0;
    std::uint64_t totalBytes = 0;
};

std::string sha256Hex(std::string_view data);

/// The digest of everything from the descriptor's current position to its end. Throws Error on read failures.
std::string sha256HexOfFile(int fd, std::string_view nameForMessages);

}  // namespace sarus
