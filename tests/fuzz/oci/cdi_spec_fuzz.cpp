// CDI files: the first byte decides whether the rest is read as YAML or as JSON. What is accepted keeps the
// rules of the format.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/cdi/cdi_spec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    try {
        const auto spec = sarus::oci::parseCdiSpec(text, data[0] == 'Y' ? "x.yaml" : "x.json");
        for (const auto& device : spec.devices) {
            const auto name = sarus::oci::parseCdiName(sarus::cat(spec.kind, "=", device.name));
            if (!name || name->kind != spec.kind || name->device != device.name || device.edits.empty()) {
                std::abort();
            }
        }
        for (const auto& [name, value] : spec.edits.env) {
            if (name.empty() || name.find('=') != std::string::npos ||
                value.find('\0') != std::string::npos) {
                std::abort();
            }
        }
    } catch (const sarus::Error&) {
    }
    return 0;
}
