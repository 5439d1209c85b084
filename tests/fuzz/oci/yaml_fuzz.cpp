// The YAML subset: what is accepted can be written as JSON and read back unchanged.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "oci/cdi/yaml.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const auto document = sarus::oci::parseYaml({reinterpret_cast<const char*>(data), size}, "x.yaml");
        if (nlohmann::ordered_json::parse(document.dump()) != document) {
            std::abort();
        }
    } catch (const sarus::Error&) {
    }
    return 0;
}
