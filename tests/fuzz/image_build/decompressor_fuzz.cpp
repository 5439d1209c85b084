// Decompresses a blob. Where two implementations of gzip both accept it, they agree on the content.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.hpp"
#include "image/build/read/decompressor.hpp"

namespace {

using namespace sarus::image::build;

constexpr std::size_t mostOutput = 1U << 20U;

/// The content, as far as `mostOutput`; nullopt if the blob is damaged.
std::optional<std::string> decompress(std::span<const unsigned char> blob, Decompressor& decompressor,
                                      std::size_t portion) {
    std::string content;
    unsigned char buffer[4096];
    try {
        while (content.size() < mostOutput) {
            const auto step = decompressor.step(blob.first(std::min(portion, blob.size())), buffer);
            blob = blob.subspan(step.consumed);
            content.append(reinterpret_cast<const char*>(buffer), step.produced);
            if (step.consumed == 0 && step.produced == 0) {
                if (!blob.empty()) {
                    std::abort();  // neither progress nor an error: a reader would never end
                }
                return decompressor.complete() ? std::optional(content) : std::nullopt;
            }
        }
        return std::nullopt;
    } catch (const sarus::Error&) {
        return std::nullopt;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const unsigned char> blob(data, size);
    const auto kind = detectCompression(blob);
    if (kind == Compression::none) {
        return 0;
    }
    const auto whole = decompress(blob, *makeDecompressor(kind), blob.size());
    if (decompress(blob, *makeDecompressor(kind), 7) != whole) {
        std::abort();  // the portions in which a blob arrives mean nothing
    }
    if (kind == Compression::gzip) {
        const auto other = decompress(blob, *makeZlibDecompressor(), blob.size());
        if (whole && other && *whole != *other) {
            std::abort();
        }
    }
    return 0;
}
