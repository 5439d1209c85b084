#pragma once

#include <dirent.h>

#include <memory>
#include <string>

#include "base/unique_fd.hpp"

namespace sarus {

/// What it means if there is no directory: an error, or that there are no entries.
enum class Missing { isError, isEmpty };

/// The entries of a directory, without "." and "..", unordered. Whatever prevents them from being listed
/// throws Error "Failed to list <path>: ...", so that no failure looks like the end. Only to a caller that
/// says Missing::isEmpty, a name without a directory (ENOENT, ENOTDIR, or a process that has ended) has no
/// entries, and one that goes while it is listed has no more.
class Directory {
public:
    Directory(const std::string& path, Missing missing);
    /// The directory `name` of an open one, which is not reached through a link. `path`: for messages.
    Directory(int parent, const char* name, const std::string& path, Missing missing);
    /// Takes a directory that is open for reading. `path`: for messages.
    Directory(UniqueFd fd, const std::string& path, Missing missing = Missing::isError);
    /// Reads the open directory `fd` independently; the caller keeps `fd`.
    static Directory of(int fd, const std::string& path);

    /// -1 if there is no directory.
    int fd() const noexcept { return stream ? ::dirfd(stream.get()) : -1; }
    /// The next name, valid until the next call; nullptr only at the end. Throws Error.
    const char* next();
    /// Whether the last name is that of a directory; false if that cannot be known.
    bool isAtDirectory() const noexcept;

private:
    Directory(std::string path, UniqueFd fd, Missing missing);
    [[noreturn]] void fail() const;

    struct Close {
        void operator()(DIR* directory) const noexcept { ::closedir(directory); }
    };
    std::string shown;
    Missing ifMissing;
    std::unique_ptr<DIR, Close> stream;
    const dirent* entry = nullptr;
};

}  // namespace sarus
