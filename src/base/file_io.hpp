#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus {

/// open(2) with O_CLOEXEC added; throws Error "Failed to open <path>: ...".
UniqueFd openFile(const std::string& path, int flags, mode_t mode = 0);
UniqueFd openFileAt(int directory, const std::string& name, int flags, mode_t mode = 0);

/// Reads to the end of the file; throws Error if there are more than `limit` bytes.
std::string readAll(int fd, std::size_t limit, std::string_view nameForMessages);
std::string readFile(const std::string& path, std::size_t limit = 16U << 20U);

/// Writes everything, also after short writes and EINTR.
void writeAll(int fd, std::string_view data, std::string_view nameForMessages);

/// Replaces `path` atomically: temporary file in the same directory, fsync, rename, fsync of the directory.
/// A reader sees the old content or the new one. The temporary file is removed on failure.
void replaceFile(const std::string& path, std::string_view data, mode_t mode);

/// Makes a FIFO with mode 0600 and opens it for both: there is always a reader, so that no writer waits for one, and always a
/// writer, so that there is no end of file. Reading does not block. Throws Error, also if something is there already.
UniqueFd makeFifo(const std::string& path);

/// mkdir -p; existing directories are left as they are.
void createDirectories(const std::string& path, mode_t mode = 0755);

bool pathExists(const std::string& path) noexcept;
bool isDirectory(const std::string& path) noexcept;

/// Removes a directory tree by descriptors (never follows a symbolic link); a missing tree is no error.
/// Directories without owner permissions are made accessible first. What is mounted in the tree is not touched: an error.
void removeTree(const std::string& path);

}  // namespace sarus
