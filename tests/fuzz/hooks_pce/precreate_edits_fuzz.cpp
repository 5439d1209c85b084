#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "hooks/pce/precreate_edits.hpp"

/// Edits which are accepted leave a configuration that can be read again, with their variables in it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus::hooks::pce;
    using sarus::oci::BundleConfig;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        const auto edits = parsePrecreateEdits(text, "edits.json");
        auto config = BundleConfig::parse(
            R"({"process": {"env": ["A=1"], "user": {"uid": 5, "gid": 6}}, "linux": {}})", "config.json");
        applyPrecreateEdits(edits, size % 2 == 1, config);
        const auto again = BundleConfig::parse(config.serialize(), "the result");
        for (const auto& element : edits) {
            for (const auto& variable : element.env) {
                if (!again.variable(variable.first)) {
                    std::abort();
                }
            }
        }
        again.deviceRules();
        again.user();
    } catch (const sarus::Error&) {
    }
    return 0;
}
