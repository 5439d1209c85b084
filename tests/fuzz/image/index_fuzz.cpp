#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/text.hpp"
#include "image/store/index.hpp"

/// metadata.json and the additions to `.meta` files never throw; what was understood is written and
/// understood again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus::image;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto index = parseIndex(text);
    const auto written = serializeIndex(index.images, "/images");
    const auto again = parseIndex(written);
    if (again.damaged || serializeIndex(again.images, "/images") != written) {
        std::abort();
    }
    for (const auto& image : index.images) {
        if (image.reference.uniqueKey().find("..") == 0) {
            std::abort();
        }
    }
    if (const auto info = parseStoreInfo(text)) {
        if (parseStoreInfo(serializeStoredMetadata({}, *info)) != info) {
            std::abort();
        }
    }
    return 0;
}
