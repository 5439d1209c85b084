#pragma once

#include <sys/stat.h>
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

/// Writes everything, despite short writes and EINTR.
void writeAll(int fd, std::string_view data, std::string_view nameForMessages);

/// Replaces `path` with a new file (base/draft.hpp). Throws Error.
void replaceFile(const std::string& path, std::string_view data, mode_t mode);

/// Appends the whole regular file `from` to the file `to`. Throws Error, also if a signal has arrived
/// (base/interrupt.hpp).
void copyContent(int from, int to, std::string_view nameForMessages);

/// Makes a FIFO with mode 0600 and opens it for reading and writing. No writer waits for a reader, and no end
/// of file occurs. Reading does not block. Throws Error, also if something exists already.
UniqueFd makeFifo(const std::string& path);

/// mkdir -p; existing directories stay unchanged.
void createDirectories(const std::string& path, mode_t mode = 0755);

/// The program that this process executes. Throws Error.
std::string ownProgramPath();
/// Throws Error.
std::string workingDirectory();
/// The same; "" if it has been removed or is not below this process's root.
std::string findWorkingDirectory();

/// An anonymous file in memory, empty and for writing. Throws Error.
UniqueFd makeMemoryFile(const char* name);
/// The same with this content, to be read from its beginning. Nobody can change it. Throws Error.
UniqueFd makeMemoryFile(const char* name, std::string_view content);

/// Every change of a file's content changes one of the values in this text, which can be the name of a file.
std::string fileVersion(const struct stat& file);

/// The absolute path without symbolic links; "" (and errno) if there is no such file.
std::string realPath(const std::string& path);

bool pathExists(const std::string& path) noexcept;
bool isDirectory(const std::string& path) noexcept;

/// Removes a directory tree by descriptors (never follows a symbolic link). What is missing, or somebody else
/// removes meanwhile, is not an error. Makes directories without owner permissions accessible first. Does not
/// touch mounts in the tree, but reports them as an error.
void removeTree(const std::string& path);

}  // namespace sarus
