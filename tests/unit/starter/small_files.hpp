#pragma once

#include <fcntl.h>

#include <string>
#include <string_view>

#include "base/file_io.hpp"

namespace sarus::test {

/// Without the care of replaceFile(), which takes its time.
inline void makeFile(const std::string& path, std::string_view content = {}) {
    writeAll(openFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0644).get(), content, path);
}

/// A file that says of itself that it is a sound squashfs, compressed with gzip. There is nothing in it.
inline void makeSquashfsFile(const std::string& path, std::size_t size = 4096) {
    std::string bytes(size, '\0');
    bytes.replace(0, 4, "hsqs");
    bytes[20] = 1;   // compression
    bytes[28] = 4;   // version
    bytes[40] = 96;  // bytes used
    makeFile(path, bytes);
}

}  // namespace sarus::test
