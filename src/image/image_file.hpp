#pragma once

#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus::image {

/// Whether the image of a command line is a file rather than a reference: it begins with '/', './' or '../', as no reference can.
/// Slashes alone name no file that could be meant: they are an invalid reference.
bool isImageFile(std::string_view argument);

/// Opens a squashfs file for reading, with the caller's rights. Throws Error for anything else.
UniqueFd openImageFile(const std::string& path);

}  // namespace sarus::image
