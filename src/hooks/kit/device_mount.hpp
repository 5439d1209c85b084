#pragma once

#include <string>
#include <string_view>

#include "container_root/editor.hpp"
#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/hook_logger.hpp"

namespace sarus::hooks {

/// Mounts the device node `source` of the host on the container's `destination`, and grants `access` (letters
/// of "rwm") in the container's device cgroup. Warns if a hook cannot change the cgroup and the cgroup denies
/// the device. In a user namespace, where hooks cannot change device cgroups, leaves them alone. Throws
/// Error, also if `source` is not a device.
void mountDevice(const container_root::Editor& editor, const HookContext& context, const std::string& source,
                 const std::string& destination, std::string_view access, const HookLogger& log);

}  // namespace sarus::hooks
