#pragma once

#include <cstdint>
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

/// The newest GLIBC_<numbers> that a libc.so defines; nullopt for other C libraries. It may be older than the release: some
/// releases added no symbol.
std::optional<Version> versionOf(const ElfFile& libc);

/// The release that a libc.so names in its banner ("GNU C Library ... release version 2.31."); nullopt if there is none.
std::optional<Version> releaseIn(std::string_view libc);

/// Whether a name is that of the C library itself: libc.so.<number> or libc-<version>.so.
bool isCLibraryName(std::string_view fileName) noexcept;

/// A file of the container which bears the name of one of the host's libraries.
struct ContainerFile {
    std::string path;  ///< absolute, as seen inside
    std::string name;  ///< last component
};

/// What the plan is made from.
struct ReplacementRequest {
    std::vector<HostLibrary> hostLibraries;
    std::optional<ElfFile> containerCLibrary;  ///< what programs of the container get as libc.so.6
    std::optional<Version> hostRelease;        ///< of the banner, if it was found; else the symbol versions count
    std::optional<Version> containerRelease;
    std::vector<ContainerFile> containerFiles;  ///< all whose names are SONAMEs of host libraries or of parts of glibc
    std::string directoryOfAdded = "/lib64";    ///< where libraries go that the container has not
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

/// Decides whether the container's glibc is replaced, and by what (docs/hooks.md, "glibc hook"). A pure function.
/// Throws Error if no C library is among the host's, if it is not glibc, or if the SONAMEs differ.
ReplacementPlan planReplacement(const ReplacementRequest& request);

/// Names of libraries which are parts of glibc and work with the libc.so of their own release only.
const std::vector<std::string_view>& partsOfGlibc();

}  // namespace sarus::hooks::glibc
