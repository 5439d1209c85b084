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

/// The dynamic linkers of a root filesystem; none in images with only static programs.
std::vector<DynamicLinker> findDynamicLinkers(int root);

/// The directories listed in /etc/ld.so.conf, in order, with its includes (and their wildcards) resolved
/// inside the root filesystem. A missing file lists none. Throws Error for more than 1,000 directories or
/// files. Appends all paths tried, existing or not, to `examined` if given.
std::vector<std::string> configuredLibraryDirectories(int root, std::vector<std::string>* examined = nullptr);

/// The directories that musl's dynamic linker searches: those in /etc/ld-musl-<architecture>.path, otherwise
/// its built-in ones.
std::vector<std::string> muslLibraryDirectories(int root, std::string_view architecture);

/// Adds directories to musl's path file unless its dynamic linker searches them already; keeps the built-in
/// ones.
void addMuslLibraryDirectories(int root, std::string_view architecture,
                               const std::vector<std::string>& directories);

/// A directory of libraries, open for listing.
struct LibraryDirectory {
    std::string path;  ///< as it was named, absolute, as seen inside
    UniqueFd fd;
    dev_t device = 0;
    ino_t inode = 0;
    std::vector<std::string> otherNames{};
};

/// The existing directories that the dynamic linkers search: the configured ones first, then the built-in
/// ones of each machine (also those of distributions other than the host's). Each directory appears once,
/// under its first name. Appends all names tried to `examined` if given, with those of
/// configuredLibraryDirectories().
std::vector<LibraryDirectory> librarySearchDirectories(int root, const std::vector<DynamicLinker>& linkers,
                                                       std::vector<std::string>* examined = nullptr);

}  // namespace sarus::hooks
