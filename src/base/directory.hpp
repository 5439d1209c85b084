#pragma once

#include <dirent.h>

#include <memory>
#include <string>

#include "base/unique_fd.hpp"

namespace sarus {

/// The entries of a directory, without "." and "..", unordered. A directory that could not be opened has
/// none; errno holds the reason.
class Directory {
public:
    explicit Directory(const std::string& path) noexcept : stream(::opendir(path.c_str())) {}
    /// Takes an open directory; an empty descriptor leaves errno unchanged.
    explicit Directory(UniqueFd fd) noexcept;
    /// Reads the open directory `fd` independently; the caller keeps `fd`.
    static Directory of(int fd) noexcept;

    explicit operator bool() const noexcept { return stream != nullptr; }
    int fd() const noexcept { return ::dirfd(stream.get()); }
    /// The next name, valid until the next call. nullptr at the end and on failure; errno is 0 only at the
    /// end.
    const char* next() noexcept;
    /// Whether the last name is that of a directory; false if that cannot be known.
    bool isAtDirectory() const noexcept;

private:
    struct Close {
        void operator()(DIR* directory) const noexcept { ::closedir(directory); }
    };
    std::unique_ptr<DIR, Close> stream;
    const dirent* entry = nullptr;
};

}  // namespace sarus
