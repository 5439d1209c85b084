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

Renumbered renumberDevices(std::string_view visibleDevices, std::string_view presentDevices) {
    const auto indices = parseIndices(visibleDevices);
    auto present = parseIndices(presentDevices);
    if (!indices || !present) {
        return {std::string(visibleDevices), ""};
    }
    std::sort(present->begin(), present->end());
    present->erase(std::unique(present->begin(), present->end()), present->end());
    Renumbered result;
    for (const auto index : *indices) {
        const auto found = std::lower_bound(present->begin(), present->end(), index);
        const bool isPresent = found != present->end() && *found == index;
        auto& list = isPresent ? result.devices : result.absent;
        list += list.empty() ? "" : ",";
        list += isPresent ? cat(found - present->begin()) : cat(index);
    }
    return result;
}

void rewriteCudaVariables(const Environment& host, const std::optional<std::string>& present,
                          Environment& container) {
    const auto visible = host.find("CUDA_VISIBLE_DEVICES");
    if (visible == host.end() || visible->second == "NoDevFiles") {  // Slurm's value for a job without GPUs
        for (const auto* name : {"CUDA_VERSION", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
                                 "NVIDIA_DRIVER_CAPABILITIES"}) {
            container.erase(name);
        }
        return;
    }
    const auto& devices = present.value_or(visible->second);
    container["CUDA_VISIBLE_DEVICES"] = renumberDevices(visible->second, devices).devices;
    container["NVIDIA_VISIBLE_DEVICES"] = devices;
    container.emplace("NVIDIA_DRIVER_CAPABILITIES", "all");
}

}  // namespace sarus::engine
