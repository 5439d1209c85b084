#pragma once

#include <sys/types.h>

#include <string>

#include "container_root/editor.hpp"
#include "hooks/kit/container_user.hpp"
#include "hooks/kit/hook_logger.hpp"
#include "hooks/ssh/user_keys.hpp"

namespace sarus::hooks::ssh {

/// Puts the keys into `<home>/.ssh` of the container, with the rights of its user (`user`, as this process
/// knows the ids); with `overlay`, on an overlay that hides every change from what is below. A directory that
/// is missing is made. `extraKeys`: further lines of authorized_keys. Warns of what makes Dropbear refuse
/// keys. Throws Error.
void fillSshDirectory(const container_root::Editor& editor, int root, const std::string& home,
                      const ContainerUser& user, const UserKeys& keys, const std::string& extraKeys,
                      bool overlay, const HookLogger& log);

}  // namespace sarus::hooks::ssh
