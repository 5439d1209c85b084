#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "oci/runtime/bundle_config.hpp"
#include "oci/runtime/container_state.hpp"

namespace {

/// Paths are absolute and the pid is one; whatever else the text says.
void readState(std::string_view text) {
    const auto state = sarus::oci::parseContainerState(text);
    const auto isAbsoluteOrEmpty = [](const std::string& path) {
        return path.empty() || path.front() == '/';
    };
    if (state.pid < 0 || !isAbsoluteOrEmpty(state.bundle) || !isAbsoluteOrEmpty(state.root)) {
        std::abort();
    }
}

/// What is written reads back and is written the same again.
void editConfig(std::string_view text) {
    auto config = sarus::oci::BundleConfig::parse(text, "input");
    const auto written = config.serialize();
    if (sarus::oci::BundleConfig::parse(written, "output").serialize() != written) {
        std::abort();
    }
    config.setVariable("A", "1");
    if (config.variable("A") != "1") {
        std::abort();
    }
    config.user();
    config.deviceRules();
    config.annotations();
    config.uidMappings();
    config.hasNamespace("mount");
    config.addMount({"/d", "bind", "/s", {}});
    config.addAdditionalGid(1);
    config.serialize();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (auto* use : {&readState, &editConfig}) {
        try {
            use(text);
        } catch (const sarus::Error&) {
            continue;  // refused, as most inputs should be
        }
    }
    return 0;
}
