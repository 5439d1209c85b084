#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::hooks::amdgpu {

/// An AMD GPU of the node, numbered as in ROCm.
struct Gpu {
    unsigned index = 0;                     ///< index in ROCR_VISIBLE_DEVICES
    std::string card;                       ///< "card0" in /dev/dri; empty if the GPU has none
    std::string render;                     ///< "renderD128" in /dev/dri
    std::optional<std::uint64_t> uniqueId;  ///< the UUID is derived from it; not every GPU has one
    bool operator==(const Gpu&) const = default;

    /// "GPU-" and 16 hexadecimal digits; empty without a unique id.
    std::string uuid() const;
};

/// The GPUs of the node, and what could not be interpreted.
struct FoundGpus {
    std::vector<Gpu> gpus;
    std::vector<std::string> warnings;
};

/// The GPUs in the order of the kernel's compute topology (/sys/class/kfd), as in ROCm. If the kernel hides
/// it, those with links "<bus>-card" and "<bus>-render" in /dev/dri/by-path, ordered by card number. `dev`
/// and `sys` are the directories /dev and /sys. Throws Error if an existing directory cannot be read.
FoundGpus findGpus(const std::string& dev = "/dev", const std::string& sys = "/sys");

/// The GPUs selected by ROCR_VISIBLE_DEVICES: a comma-separated list of indices and UUIDs (unambiguous
/// prefixes suffice); all of them if the value is empty. Each GPU appears once. Throws Error for an entry
/// that matches no GPU.
std::vector<Gpu> selectGpus(const std::vector<Gpu>& gpus, std::string_view visibleDevices);

}  // namespace sarus::hooks::amdgpu
