#include "base/sha256.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "base/text.hpp"

namespace sarus {

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
        sha256::compress(state, pending.data(), 1);
        pendingSize = 0;
    }
    const auto blocks = left / sha256::blockSize;
    sha256::compress(state, bytes, blocks);
    bytes += blocks * sha256::blockSize;
    left -= blocks * sha256::blockSize;
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
    return hexOf(sha256::bytesOf(state));
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
