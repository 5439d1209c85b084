#include "image/build/compressor_library.hpp"

#include <dlfcn.h>
#include <zlib.h>
#include <zstd.h>

#include "base/text.hpp"

namespace sarus::image::build {

namespace {

/// Calls a function of a library that libsquashfs has loaded, and whose headers are not needed for anything else.
std::string versionBy(const char* function) {
    using Version = const char* (*)();
    const auto version = reinterpret_cast<Version>(::dlsym(RTLD_DEFAULT, function));
    return version != nullptr ? cat(" ", version()) : std::string();
}

}  // namespace

std::string compressorLibrary(const std::string& compressor) {
    if (compressor == "zstd") {
        return cat("zstd ", ZSTD_versionString());
    }
    if (compressor == "gzip") {
        return cat("zlib ", ::zlibVersion());
    }
    return cat(compressor, compressor == "xz" ? versionBy("lzma_version_string") : versionBy("LZ4_versionString"));
}

}  // namespace sarus::image::build
