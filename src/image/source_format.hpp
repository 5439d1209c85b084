#pragma once

#include <string>
#include <vector>

namespace sarus::image {

/// Skopeo's transports for the kinds of files which `sarus load` may get, most likely first: "docker-archive", "oci-archive",
/// "oci" (a directory), "sif". Looks at the content. A compressed archive cannot be looked into, so it may be either kind of
/// archive. Throws Error if the file does not exist or can be none of them.
std::vector<std::string> possibleTransports(const std::string& path);

}  // namespace sarus::image
