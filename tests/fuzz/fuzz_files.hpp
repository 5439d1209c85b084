#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"

namespace sarus::test::fuzz {

/// A directory for the files of this process, in memory where there is /dev/shm; removed at the end.
inline const std::string& scratchDirectory() {
    struct Scratch {
        std::string path = isDirectory("/dev/shm") ? "/dev/shm/sarus-fuzz-XXXXXX" : "/tmp/sarus-fuzz-XXXXXX";
        Scratch() {
            if (::mkdtemp(path.data()) == nullptr) {
                throwErrno("Failed to create a temporary directory");
            }
        }
        ~Scratch() { removeTree(path); }
    };
    static const Scratch scratch;
    return scratch.path;
}

/// Replaces the content of a file.
inline void write(const std::string& path, std::string_view bytes) {
    writeAll(openFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0600).get(), bytes, path);
}

}  // namespace sarus::test::fuzz
