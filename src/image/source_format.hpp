#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sarus::image {

/// The program which decompresses a file with this content ("gzip", "zstd", "xz", "bzip2"); nullopt if it is not compressed.
/// Throws Error if the file cannot be read.
std::optional<std::string> decompressorOf(const std::string& path);

/// Skopeo's transport for a file which `sarus load` gets: "docker-archive", "oci-archive", "oci" (a directory) or "sif". Looks at
/// the content, which is not compressed. Throws Error, with the file's `shown` name, if it can be none of them.
std::string transportOf(const std::string& path, std::string_view shown);

}  // namespace sarus::image
