#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "oci/image/image_manifest.hpp"

/// Digests become names of files: whatever is accepted is well-formed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus::oci;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto check = [](const Descriptor& descriptor) {
        if (!Digest::isValid(descriptor.digest.text())) {
            std::abort();
        }
    };
    try {
        manifestKind(text);
    } catch (const sarus::Error&) {
        return 0;  // no JSON object
    }
    try {
        const auto manifest = parseImageManifest(text);
        check(manifest.config);
        for (const auto& layer : manifest.layers) {
            check(layer);
        }
    } catch (const sarus::Error&) {
        // refused; it may still be an index
    }
    try {
        const auto index = parseImageIndex(text);
        for (const auto& entry : index.manifests) {
            check(entry);
        }
        selectPlatform(index, hostPlatform());
    } catch (const sarus::Error&) {
        return 0;
    }
    return 0;
}
