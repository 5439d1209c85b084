#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "oci/image/image_metadata.hpp"

/// What was read can be written, and reads back the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus::oci;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (auto* parse : {&parseImageMetadata, &parseImageConfig}) {
        try {
            const auto metadata = parse(text);
            if (parseImageMetadata(serializeImageMetadata(metadata)) != metadata) {
                std::abort();
            }
        } catch (const sarus::Error&) {
            continue;  // refused, as most inputs should be
        }
    }
    return 0;
}
