#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "hook_contracts/inventory.hpp"

/// An accepted inventory names devices below /dev and paths without "..", and its features can all be
/// selected.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus::hook_contracts;
    try {
        const auto inventory = parseInventory({reinterpret_cast<const char*>(data), size}, "vendor.cfg");
        const auto selected = selectFeatures(inventory, "all");
        const auto edits = mergeFeatures(inventory, selected);
        if (selected != inventory.features || inventory.activationFlag.empty()) {
            std::abort();
        }
        for (const auto& device : edits.devices) {
            if (!device.starts_with("/dev/") || device.find("/../") != std::string::npos) {
                std::abort();
            }
        }
        for (const auto* paths :
             {&edits.binaries, &edits.libraries, &edits.directories, &edits.miscellaneous}) {
            for (const auto& path : *paths) {
                if (path.size() < 2 || path.front() != '/' || path.find("/../") != std::string::npos ||
                    path.find('\0') != std::string::npos) {
                    std::abort();
                }
            }
        }
    } catch (const sarus::Error&) {
        return 0;  // refused, as most inputs should be
    }
    return 0;
}
