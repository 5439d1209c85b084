#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "container_root/editor.hpp"
#include "hooks/kit/hook_context.hpp"

namespace sarus::hooks::ssh {

// A path of a user is written in a process that is this user (runAsContainerUser()). Only a file that holds a
// process id is overwritten.

/// Writes a file of the host, with the rights that are in force. Throws Error.
void writePidFile(const std::string& path, std::string_view text);

/// The same in the container; missing directories are made.
void writePidFileInside(const container_root::Editor& editor, const std::string& path, std::string_view text);

/// The process id in the file, which is removed; nullopt, and nothing happens, if it holds none.
std::optional<pid_t> takePidFile(const std::string& path);

/// Ends the process if it is a Dropbear of the container's user, with no more than the user's rights.
void endDaemonOf(std::optional<pid_t> pid, const HookContext& context);

}  // namespace sarus::hooks::ssh
