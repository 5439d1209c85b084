#pragma once

#include <string>
#include <string_view>

#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/hook_log.hpp"
#include "hooks/kit/root_editor.hpp"

namespace sarus::hooks {

/// Mounts the device node `source` of the host on the container's `destination`, and allows the container's device cgroup
/// `access` (letters of "rwm") to it. A cgroup that a hook cannot amend is warned about,
/// unless it lets the device be used as it is; in a user namespace, where a hook has no
/// say in device cgroups, they are left alone. Throws Error, also if `source` is not a device.
void mountDevice(const RootEditor& editor, const HookContext& context, const std::string& source, const std::string& destination,
                 std::string_view access, const HookLog& log);

}  // namespace sarus::hooks
