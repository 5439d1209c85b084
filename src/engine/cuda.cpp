#include "engine/cuda.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/text.hpp"

namespace sarus::engine {

namespace {

/// The numbers of a comma-separated list; nullopt if it contains anything else.
std::optional<std::vector<std::uint64_t>> parseIndices(std::string_view list) {
    std::vector<std::uint64_t> indices;
    for (const auto& token : split(list, ',')) {
        const auto number = parseNumber(trim(token));
        if (!number) {
            return std::nullopt;
        }
        indices.push_back(*number);
    }
    return indices;
}

}  // namespace

std::string renumberDevices(std::string_view visibleDevices) {
    const auto indices = parseIndices(visibleDevices);
    if (!indices) {
        return std::string(visibleDevices);
    }
    auto sorted = *indices;
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    std::string renumbered;
    for (const auto index : *indices) {
        const auto position = std::lower_bound(sorted.begin(), sorted.end(), index) - sorted.begin();
        renumbered += cat(renumbered.empty() ? "" : ",", position);
    }
    return renumbered;
}

void rewriteCudaVariables(const Environment& host, Environment& container) {
    const auto visible = host.find("CUDA_VISIBLE_DEVICES");
    if (visible == host.end() || visible->second == "NoDevFiles") {  // Slurm's value for a job without GPUs
        for (const auto* name : {"CUDA_VERSION", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
                                 "NVIDIA_DRIVER_CAPABILITIES"}) {
            container.erase(name);
        }
        return;
    }
    container["NVIDIA_VISIBLE_DEVICES"] = visible->second;
    container.emplace("NVIDIA_DRIVER_CAPABILITIES", "all");
    container["CUDA_VISIBLE_DEVICES"] = renumberDevices(visible->second);
}

}  // namespace sarus::engine
