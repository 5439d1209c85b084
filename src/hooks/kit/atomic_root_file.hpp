#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace sarus::hooks {

/// Replaces a file inside the root filesystem atomically: a temporary file in the same directory, then rename. What is at the
/// last component is replaced itself, also if it is a symbolic link; the directory must exist. The file is not flushed to the
/// disk, because a container's file which a crash loses is made again at the next start. Throws Error (with the errno).
void replaceFileInRoot(int root, std::string_view path, std::string_view content, mode_t mode);

}  // namespace sarus::hooks
