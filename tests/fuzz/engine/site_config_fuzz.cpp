#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "engine/site_config.hpp"

/// An accepted configuration has the paths that the programs rely on.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const auto config =
            sarus::engine::parseSiteConfig({reinterpret_cast<const char*>(data), size}, "sarus.json");
        if (!config.ociBundleDir.starts_with('/') || !config.runcPath.starts_with('/') ||
            config.rootfsFolder.empty() || config.rootfsFolder.find('/') != std::string::npos) {
            std::abort();
        }
    } catch (const sarus::Error&) {
        return 0;  // refused, as most inputs should be
    }
    return 0;
}
