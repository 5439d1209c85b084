#pragma once

#include <vector>

#include "engine/container_plan.hpp"
#include "engine/hook_devices.hpp"
#include "starter/rootfs.hpp"

namespace sarus::starter {

/// Rules for those of the paths which are devices now, and for the devices directly in those which are directories; each device
/// once for each access. What is neither, or missing, is left to the hook. Nothing is opened but directories.
std::vector<DeviceRule> findDeviceRules(const std::vector<engine::HookDevice>& devices);

/// The rules for all that this project's hooks in the plan will bring: engine::devicesOfHooks() and what the vendors' inventories
/// list for the container's variables (decorator_hook). An inventory that the hook will refuse counts for nothing.
std::vector<DeviceRule> findDeviceRulesOfHooks(const engine::ContainerPlan& plan);

}  // namespace sarus::starter
