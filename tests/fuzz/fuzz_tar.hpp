#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace sarus::test::fuzz {

/// A bit of an input's first byte: the checksums are to stay as they are.
constexpr unsigned int keepChecksums = 1;

inline void correctChecksum(std::string& archive, std::size_t header) {
    constexpr std::size_t blockSize = 512;
    archive.replace(header + 148, 8, "        ");
    unsigned int sum = 0;
    for (std::size_t i = 0; i < blockSize; ++i) {
        sum += static_cast<unsigned char>(archive[header + i]);
    }
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    archive.replace(header + 148, 7, digits, 7);
}

/// Follows the headers as a reader would, roughly: by the octal sizes.
inline void correctChecksums(std::string& archive) {
    constexpr std::size_t blockSize = 512;
    for (std::size_t header = 0; header + blockSize <= archive.size();) {
        const std::string_view block(archive.data() + header, blockSize);
        if (block.find_first_not_of('\0') == std::string_view::npos) {
            return;
        }
        std::uint64_t size = std::strtoull(std::string(block.substr(124, 11)).c_str(), nullptr, 8);
        const char type = block[156];
        const bool hasData = type == '0' || type == '\0' || type == 'x' || type == 'L' || type == 'K' ||
                             type == 'g' || type == 'S';
        size = hasData ? std::min<std::uint64_t>(size, archive.size()) : 0;
        correctChecksum(archive, header);
        header += blockSize + (size + blockSize - 1) / blockSize * blockSize;
    }
}

}  // namespace sarus::test::fuzz
