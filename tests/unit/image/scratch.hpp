#pragma once

#include <fcntl.h>
#include <stdlib.h>

#include <string>

#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::test {

/// A directory which is removed with everything in it.
class Scratch {
public:
    Scratch() {
        char pattern[] = "/tmp/sarus-unit-XXXXXX";
        directory = ::mkdtemp(pattern);
    }
    ~Scratch() { removeTree(directory); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    std::string path(std::string_view name = {}) const {
        return name.empty() ? directory : cat(directory, '/', name);
    }

    /// Writes a file and the directories above it.
    std::string write(std::string_view name, std::string_view content) const {
        const auto file = path(name);
        createDirectories(file.substr(0, file.find_last_of('/')));
        const auto fd = openFile(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        writeAll(fd.get(), content, file);
        return file;
    }

private:
    std::string directory;
};

}  // namespace sarus::test
