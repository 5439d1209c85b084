#pragma once

#include <time.h>

#include <string>
#include <string_view>

namespace sarus::hooks::timestamp {

/// The documented line, with its final newline: "[seconds.nanoseconds] [host-pid] [hook] [INFO] Timestamp hook: message". The
/// time is that of the UNIX clock, with nine digits of nanoseconds, so that the lines sort and subtract.
std::string formatLine(const timespec& time, std::string_view host, int pid, std::string_view message);

/// Whether a text can be the beginning of a log of this hook.
bool isStartOfLog(std::string_view text);

/// Appends the line to the regular file `path`, which is created if necessary, in one write, with the rights of this process.
/// Those of root need care, because an image can name the file: then no symbolic link is followed in the last component, and a
/// file that is there must be empty or a log of this hook. Throws Error.
void appendLine(const std::string& path, std::string_view line, bool withRootsRights);

}  // namespace sarus::hooks::timestamp
