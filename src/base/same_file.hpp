#pragma once

#include <sys/stat.h>

#include "base/error.hpp"

namespace sarus {

/// Throws Error "Failed to examine <what>".
inline struct stat statusOf(int fd, std::string_view what) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        throwErrno(std::string("Failed to examine ").append(what));
    }
    return status;
}

inline bool isSameFile(const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace sarus
