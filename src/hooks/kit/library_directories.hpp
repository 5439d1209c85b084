#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::hooks {

enum class CLibrary { glibc, musl };

/// A dynamic linker at its standard place in a root filesystem.
struct DynamicLinker {
    CLibrary library;
    std::uint16_t machine;  ///< as in the ELF header
    std::string_view name;  ///< the architecture's name in file names: "x86_64", "aarch64"
    std::string_view path;  ///< absolute, as seen inside
};

/// The dynamic linkers of a root filesystem; none in images which hold static programs only.
std::vector<DynamicLinker> findDynamicLinkers(int root);

/// The directories that /etc/ld.so.conf names, in order, with its includes (and their wildcards) resolved inside the root
/// filesystem. A missing file names none. Throws Error if it names more than 1,000 directories or files. The paths that were
/// looked at, existing or not, are appended to `examined` if it is given.
std::vector<std::string> configuredLibraryDirectories(int root, std::vector<std::string>* examined = nullptr);

/// The directories that musl's dynamic linker searches: those in /etc/ld-musl-<architecture>.path, else its built-in ones.
std::vector<std::string> muslLibraryDirectories(int root, std::string_view architecture);

/// Adds directories to musl's path file unless its dynamic linker searches them already; the built-in ones are kept.
void addMuslLibraryDirectories(int root, std::string_view architecture, const std::vector<std::string>& directories);

/// A directory of libraries, open for listing.
struct LibraryDirectory {
    std::string path;  ///< as it was named, absolute, as seen inside
    UniqueFd fd;
    dev_t device = 0;
    ino_t inode = 0;
    std::vector<std::string> otherNames{};
};

/// The directories which the dynamic linkers search, that exist: the configured ones first, then the built-in ones of each
/// machine (also those of distributions that are not this host's). Each directory appears once, under the first of its names.
/// All names that were tried are appended to `examined` if it is given, with those of configuredLibraryDirectories().
std::vector<LibraryDirectory> librarySearchDirectories(int root, const std::vector<DynamicLinker>& linkers,
                                                       std::vector<std::string>* examined = nullptr);

}  // namespace sarus::hooks
