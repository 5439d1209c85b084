#pragma once

#include <optional>
#include <string>

namespace sarus::starter {

/// The fs-verity digest (base/fsverity.hpp) of an image whose content nobody but root can change any more:
/// that of the kernel, if the file has fs-verity enabled; or that of the bytes of a file that only root can
/// change. The node remembers the latter, in a directory of root's, until the file changes. nullopt for any
/// other file: its owner could change it after the check. Call it only if whyNotByKernel() is empty. Throws
/// Error.
std::optional<std::string> fixedDigest(int imageFd, const std::string& imagePath);

}  // namespace sarus::starter
