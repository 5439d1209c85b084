#include "engine/cuda.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace sarus::engine {

namespace {

/// Orders numbers by value, and before everything that is not a number.
struct DeviceId {
    explicit DeviceId(std::string_view token) : number(parseNumber(token).value_or(UINT64_MAX)), text(token) {}

    bool operator<(const DeviceId& other) const { return std::tie(number, text) < std::tie(other.number, other.text); }
    bool operator==(const DeviceId& other) const { return number == other.number && text == other.text; }

    std::uint64_t number;
    std::string text;
};

}  // namespace

std::string renumberDevices(std::string_view visibleDevices) {
    std::vector<DeviceId> devices;
    if (!trim(visibleDevices).empty()) {
        for (const auto& token : split(visibleDevices, ',')) {
            devices.emplace_back(trim(token));
        }
    }
    auto sorted = devices;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    std::string renumbered;
    for (const auto& device : devices) {
        const auto position = std::lower_bound(sorted.begin(), sorted.end(), device) - sorted.begin();
        renumbered += cat(renumbered.empty() ? "" : ",", position);
    }
    return renumbered;
}

void rewriteCudaVariables(const Environment& host, Environment& container) {
    const auto visible = host.find("CUDA_VISIBLE_DEVICES");
    if (visible == host.end() || visible->second == "NoDevFiles") {  // Slurm's word for a job without GPUs
        for (const auto* name :
             {"CUDA_VERSION", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}) {
            container.erase(name);
        }
        return;
    }
    container["NVIDIA_VISIBLE_DEVICES"] = visible->second;
    container.emplace("NVIDIA_DRIVER_CAPABILITIES", "all");
    container["CUDA_VISIBLE_DEVICES"] = renumberDevices(visible->second);
}

}  // namespace sarus::engine
