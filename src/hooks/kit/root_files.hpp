#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus::hooks {

/// Opens a directory inside the root filesystem for listing; empty (and errno) if there is none.
UniqueFd tryOpenDirectoryInRoot(int root, std::string_view path);

/// Opens a regular file inside the root filesystem for reading; empty (and errno) if there is none. Devices, FIFOs
/// and sockets, which an image may hold anywhere, are never opened: errno is EINVAL.
UniqueFd tryOpenFileInRoot(int root, std::string_view path);

/// The content of such a file; nullopt if there is none. Throws Error if it is larger than `limit`.
std::optional<std::string> tryReadFileInRoot(int root, const std::string& path, std::size_t limit);

}  // namespace sarus::hooks
