#pragma once

#include <string_view>
#include <vector>

#include "hook_contracts/hook_call.hpp"

namespace sarus::hook_contracts {

/// The variable of mpi_hook with the colon-separated paths to mount in the container. Some are devices.
inline constexpr std::string_view mpiBindMounts = "BIND_MOUNTS";

std::vector<HookDevice> devicesOfMpiHook(const HookCall& call);

}  // namespace sarus::hook_contracts
