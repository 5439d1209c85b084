#pragma once

#include <span>
#include <string>
#include <string_view>

/// Lower-case hexadecimal digits.
namespace sarus {

constexpr std::string_view hexDigits = "0123456789abcdef";

/// Whether the text has no other characters; also if it is empty.
constexpr bool isHex(std::string_view text) noexcept {
    return text.find_first_not_of(hexDigits) == std::string_view::npos;
}

/// Two digits for each byte.
inline std::string hexOf(std::span<const unsigned char> bytes) {
    std::string text;
    for (const auto byte : bytes) {
        text += {hexDigits[byte >> 4U], hexDigits[byte & 15U]};
    }
    return text;
}

inline std::string hexOf(unsigned char byte) {
    return hexOf(std::span(&byte, 1));
}

}  // namespace sarus
