#pragma once

#include <time.h>

#include <string>
#include <string_view>

namespace sarus::hooks::timestamp {

/// The documented line, with its final newline: "[seconds.nanoseconds] [host-pid] [hook] [INFO] Timestamp
/// hook: message". The time is that of the UNIX clock, with nine digits of nanoseconds, so that the lines
/// sort and subtract.
std::string formatLine(const timespec& time, std::string_view host, int pid, std::string_view message);

/// Whether a text can be the start of a log of this hook.
bool isStartOfLog(std::string_view text);

/// Appends the line in one write to the regular file `path`, created if necessary, with the rights of this
/// process. With root's rights, care is needed because an image can name the file: does not follow a symbolic
/// link in the last component, and an existing file must be empty or a log of this hook. Throws Error.
void appendLine(const std::string& path, std::string_view line, bool withRootsRights);

}  // namespace sarus::hooks::timestamp
