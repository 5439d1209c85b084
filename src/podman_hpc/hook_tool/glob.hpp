#pragma once

#include <string>
#include <vector>

namespace sarus::podman_hpc {

/// Whether the text contains `*`, `?` or `[`.
bool isPattern(const std::string& text);

/// The existing entries that an absolute path with patterns matches, sorted. A pattern matches no leading
/// dot. Without a pattern: the path itself, if something is there (also a dangling symbolic link).
std::vector<std::string> expandGlob(const std::string& pattern);

}  // namespace sarus::podman_hpc
