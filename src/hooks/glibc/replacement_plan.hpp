#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/kit/host_library.hpp"

namespace sarus::hooks::glibc {

/// A version of the GNU C library: 2.36 or 2.2.5.
struct Version {
    std::vector<std::uint32_t> numbers;
    std::string text() const;
    auto operator<=>(const Version&) const = default;
};

/// The newest GLIBC_<numbers> that a libc.so defines; nullopt for other C libraries. It may be older than the
/// release: some releases added no symbol.
std::optional<Version> versionOf(const ElfFile& libc);

/// The release that a libc.so names in its banner ("GNU C Library ... release version 2.31."); nullopt if
/// there is none.
std::optional<Version> releaseIn(std::string_view libc);

/// Whether the name is the C library's: libc.so.<number> or libc-<version>.so.
bool isCLibraryName(std::string_view fileName) noexcept;

/// A file of the container with the name of one of the host's libraries.
struct ContainerFile {
    std::string path;  ///< absolute, as seen inside
    std::string name;  ///< last component
};

/// The input of planReplacement().
struct ReplacementRequest {
    std::vector<HostLibrary> hostLibraries;
    std::optional<ElfFile> containerCLibrary;  ///< the file that programs of the container load as libc.so.6
    bool isMusl = false;                       ///< the container has musl's dynamic linker and none of glibc
    std::optional<Version> hostRelease;  ///< from the banner, if found; otherwise the symbol versions count
    std::optional<Version> containerRelease;
    /// Finds all files with the SONAME of a host library or of a part of glibc. Called only to replace
    /// something.
    std::function<std::vector<ContainerFile>()> findFiles;
    std::string directoryOfAdded = "/lib64";  ///< where to add libraries that the container lacks
};

/// One host library and the paths of the container over which it is mounted.
struct Replacement {
    std::string hostPath;
    std::vector<std::string> destinations;
    bool isAdded = false;  ///< the container has no such library
};

struct ReplacementPlan {
    std::vector<Replacement> replacements;  ///< empty: the container's glibc is used
    std::string announcement;               ///< for the user, if anything is replaced
    std::string reason;                     ///< why nothing is replaced
    std::vector<std::string> warnings;
};

/// Decides whether to replace the container's glibc, and by what (docs/reference/hooks.md, "glibc hook").
/// Throws Error if the host's libraries include no C library, if it is not glibc, or if the SONAMEs
/// differ.
ReplacementPlan planReplacement(const ReplacementRequest& request);

/// Names of libraries that are parts of glibc and work only with the libc.so of their own release.
const std::vector<std::string_view>& partsOfGlibc();

}  // namespace sarus::hooks::glibc
