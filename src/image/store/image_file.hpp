#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"

namespace sarus::image {

/// Whether the image on a command line is a file rather than a reference: it begins with '/', './' or '../',
/// as no reference can. Slashes alone do not name a file: they are an invalid reference.
bool isImageFile(std::string_view argument);

/// Opens a squashfs file for reading, with the caller's rights. Throws Error if it is not one.
UniqueFd openImageFile(const std::string& path);

/// The limit of an image file's metadata, in the file and beside it.
inline constexpr std::size_t largestMetadata = 4U << 20U;

/// The metadata that writeImageFile() put behind the file system; nullopt if there are none.
std::optional<std::string> embeddedMetadata(int file);

/// Writes a squashfs file that carries the text of its metadata behind the file system, where its readers do
/// not look. `path` must not exist, unless it may be replaced. It appears only when everything is on the
/// disk. Throws Error.
enum class Existing { keep, replace };
void writeImageFile(int squashfs, std::string_view metadata, const std::string& path,
                    Existing existing = Existing::keep);

}  // namespace sarus::image
