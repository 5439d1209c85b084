#pragma once

#include <string>

namespace sarus::image::build {

/// The library behind one of libsquashfs' compressors, with the version that runs: "zstd 1.5.4". Another version may give other
/// bytes for the same content.
std::string compressorLibrary(const std::string& compressor);

}  // namespace sarus::image::build
