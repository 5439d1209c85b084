#pragma once

#include <optional>
#include <string>

namespace sarus::image {

/// The program that decompresses a regular file with this content ("gzip", "zstd", "xz", "bzip2"); nullopt if
/// it is not compressed. Does not change the descriptor's offset. Throws Error if the file cannot be read.
std::optional<std::string> compressionOf(int file);

/// Whether a regular file is a Singularity image (SIF).
bool isSif(int file);

}  // namespace sarus::image
