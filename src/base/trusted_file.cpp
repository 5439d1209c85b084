#include "base/trusted_file.hpp"

#include <fcntl.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus {

void requireRootsOwn(const struct stat& status, const std::string& path) {
    if (status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        throw Error(cat(printable(path), " is not root's alone: it belongs to user ", status.st_uid,
                        " or others may write to it"),
                    "It must belong to root, and neither its group nor others may write to it")
            .setId("path-not-secure");
    }
}

UniqueFd openTrustedDirectory(const std::string& path, bool mustBeRoots) {
    auto directory = openFile(path, O_RDONLY | O_DIRECTORY);
    struct stat status {};
    checkErrno(::fstat(directory.get(), &status), cat("Failed to examine ", printable(path)));
    if (mustBeRoots) {
        requireRootsOwn(status, path);
    }
    return directory;
}

std::string readTrustedFile(int directory, const std::string& name, const std::string& path,
                            std::size_t limit, bool mustBeRoots) {
    // A FIFO or terminal must not block the start of a container.
    const auto file = openFileAt(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat status {};
    checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", printable(path)));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat(printable(path), " is not a regular file"));
    }
    if (mustBeRoots) {
        requireRootsOwn(status, path);
    }
    return readAll(file.get(), limit, printable(path));
}

}  // namespace sarus
