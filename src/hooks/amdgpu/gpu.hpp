#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::hooks::amdgpu {

/// An AMD GPU of the node, as ROCm counts them.
struct Gpu {
    unsigned index = 0;                     ///< what ROCR_VISIBLE_DEVICES calls it
    std::string card;                       ///< "card0" in /dev/dri; empty if the GPU has none
    std::string render;                     ///< "renderD128" in /dev/dri
    std::optional<std::uint64_t> uniqueId;  ///< of which the UUID is made; not every GPU has one
    bool operator==(const Gpu&) const = default;

    /// "GPU-" and 16 hexadecimal digits; empty without a unique id.
    std::string uuid() const;
};

/// What was found on the node, and what could not be made sense of.
struct Inventory {
    std::vector<Gpu> gpus;
    std::vector<std::string> warnings;
};

/// The GPUs in the order of the kernel's compute topology (/sys/class/kfd), which is that of ROCm. Where the kernel does not show
/// it, those with links "<bus>-card" and "<bus>-render" in /dev/dri/by-path, counted by the number of their card. `dev` and `sys`
/// are the directories /dev and /sys. Throws Error if a directory that is there cannot be read.
Inventory findGpus(const std::string& dev = "/dev", const std::string& sys = "/sys");

/// The GPUs that ROCR_VISIBLE_DEVICES selects: a comma separated list of indices and UUIDs (as long as they are unmistakable,
/// UUIDs may be cut short); all of them if the value is empty. Each GPU appears once. Throws Error for what is no GPU of the
/// list.
std::vector<Gpu> selectGpus(const std::vector<Gpu>& gpus, std::string_view visibleDevices);

}  // namespace sarus::hooks::amdgpu
