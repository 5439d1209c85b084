#include "base/base64.hpp"

#include <cstddef>

namespace sarus {

std::string encodeBase64(std::string_view data) {
    constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < data.size(); i += 3) {
        const auto byte = [&](std::size_t k) {
            return i + k < data.size() ? static_cast<unsigned char>(data[i + k]) : 0U;
        };
        const unsigned group = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for (std::size_t k = 0; k < 4; ++k) {
            text += i + k <= data.size() ? alphabet[(group >> (18 - 6 * k)) & 63] : '=';
        }
    }
    return text;
}

}  // namespace sarus
