#pragma once

#include <vector>

#include "engine/hook_devices.hpp"
#include "starter/rootfs.hpp"

namespace sarus::starter {

/// Rules for those of the paths which are devices now, and for the devices directly in those which are directories; each device
/// once for each access. What is neither, or missing, is left to the hook. Nothing is opened but directories.
std::vector<DeviceRule> findDeviceRules(const std::vector<engine::HookDevice>& devices);

}  // namespace sarus::starter
