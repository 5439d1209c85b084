#pragma once

#include <string_view>

namespace sarus::starter {

/// The file name of the hook program `path` if sarus-hook contains it: running it then needs no start of the
/// program. "" if the file is not of the same build, for example a wrapper in its place.
std::string_view linkedHookName(const char* path);

}  // namespace sarus::starter
