#pragma once

#include <string>
#include <string_view>

namespace sarus::image {

/// The fs-verity digest (base/fsverity.hpp) of a regular file, read and hashed by one thread per CPU, up to
/// eight. Throws Error on read failures, and if the file shrinks meanwhile.
std::string fsverityDigestOfFile(int fd, std::string_view nameForMessages);

}  // namespace sarus::image
