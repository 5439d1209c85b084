#pragma once

#include <cstddef>
#include <cstdint>

namespace sarus::squashfs {

/// The number at `bytes`, as squashfs stores it.
template <typename Number>
Number littleEndian(const unsigned char* bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = sizeof(Number); i > 0; --i) {
        value = value << 8U | bytes[i - 1];
    }
    return static_cast<Number>(value);
}

}  // namespace sarus::squashfs
