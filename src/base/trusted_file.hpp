#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>

#include "base/unique_fd.hpp"

namespace sarus {

// The administrator's files that instruct hooks running as root. Only root may be able to change them.

/// Throws Error unless the owner in this status is root and neither group nor others may write.
void requireRootsOwn(const struct stat& status, const std::string& path);

/// Opens the directory for listing. With `mustBeRoots` it must belong to root. Throws Error.
UniqueFd openTrustedDirectory(const std::string& path, bool mustBeRoots);

/// Reads the regular file `name` of the directory; it may be a symbolic link. `path` is for messages. With
/// `mustBeRoots` the file must belong to root, checked on the same descriptor. Throws Error, also for more
/// than `limit` bytes.
std::string readTrustedFile(int directory, const std::string& name, const std::string& path,
                            std::size_t limit, bool mustBeRoots);

}  // namespace sarus
