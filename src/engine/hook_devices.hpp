#pragma once

#include <string>
#include <vector>

#include "engine/container_plan.hpp"

namespace sarus::engine {

/// A device which a hook will bring into the container, or a directory of such devices, and the access that it grants.
struct HookDevice {
    std::string path;
    std::string access;
    bool operator==(const HookDevice&) const = default;
};

/// What the hooks of this project in the plan will want to allow in the container's device cgroup: on version 2 they cannot, and
/// the runtime has to be told before. Read from the hooks' arguments and environment, as they do (docs/hooks.md); what they would
/// refuse is left out. Not every path of the result is a device, and any may be missing.
std::vector<HookDevice> devicesOfHooks(const ContainerPlan& plan);

}  // namespace sarus::engine
