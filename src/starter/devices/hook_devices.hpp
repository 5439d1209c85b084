#pragma once

#include <vector>

#include "engine/container_plan.hpp"
#include "hook_contracts/hook_call.hpp"
#include "oci/runtime/runtime_config.hpp"

namespace sarus::starter {

/// Rules for the paths that are devices now, and for the devices directly below those that are directories.
/// Lists each device once per access. Other or missing paths are left to the hook. Opens only directories.
std::vector<oci::RuntimeDeviceRule> findDeviceRules(const std::vector<hook_contracts::HookDevice>& devices);

/// The rules for the devices that a hook of this project adds; none for other hooks.
std::vector<oci::RuntimeDeviceRule> findDeviceRulesOfHook(const engine::ContainerPlan& plan,
                                                          const engine::PlannedHook& planned);

/// The rules for all devices that this project's hooks in the plan will add
/// (hook_contracts::devicesOfHook()).
std::vector<oci::RuntimeDeviceRule> findDeviceRulesOfHooks(const engine::ContainerPlan& plan);

}  // namespace sarus::starter
