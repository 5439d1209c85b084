#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/sha256_blocks.hpp"

namespace sarus {

/// SHA-256 (FIPS 180-4) for programs that must start fast and therefore do not link a cryptographic library.
class Sha256 {
public:
    void update(std::string_view data) noexcept;
    /// Returns the digest as 64 lower-case hexadecimal digits. The object may not be used afterwards.
    std::string finishHex();

private:
    sha256::State state = sha256::startState;
    std::array<unsigned char, sha256::blockSize> pending{};
    std::size_t pendingSize = 0;
    std::uint64_t totalBytes = 0;
};

/// 64 lower-case hexadecimal digits.
std::string sha256Hex(std::string_view data);

/// The digest of everything from the descriptor's current position to its end. Throws Error if reading fails.
std::string sha256HexOfFile(int fd, std::string_view nameForMessages);

}  // namespace sarus
