#pragma once

#include <vector>

#include "hook_contracts/hook_call.hpp"

namespace sarus::hook_contracts {

/// The compute device shared by all AMD GPUs. A node without it has none.
inline constexpr const char* amdComputeDevice = "/dev/kfd";
/// The directory of each GPU's nodes.
inline constexpr const char* graphicsDirectory = "/dev/dri";

/// All devices that amdgpu_hook may choose from: only the node knows which GPUs exist.
inline std::vector<HookDevice> devicesOfAmdgpuHook(const HookCall&) {
    return {{amdComputeDevice, "rw"}, {graphicsDirectory, "rw"}};
}

}  // namespace sarus::hook_contracts
