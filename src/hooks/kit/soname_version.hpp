#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::hooks {

/// A shared library's file name taken apart: "libmpi.so.12.1.8" is the library "libmpi.so" in version 12, 1, 8.
struct LibraryName {
    std::string linkerName;              ///< up to and including the last ".so": what `-lmpi` looks for
    std::vector<std::uint32_t> version;  ///< major, minor, patch...; empty if the name has no number

    std::optional<std::uint32_t> majorNumber() const;
    std::optional<std::uint32_t> minorNumber() const;
    /// The file name again.
    std::string text() const;
    /// The linker name, then with one number after the other: "libmpi.so", "libmpi.so.12", "libmpi.so.12.1".
    std::vector<std::string> linkNames() const;

    bool operator==(const LibraryName&) const = default;
};

/// Takes apart the last component of a path. nullopt if it is no shared library's name: no ".so", nothing before it, or
/// something else than ".<number>" (below 2^32) behind it.
std::optional<LibraryName> parseLibraryName(std::string_view path);

/// The most complete name of a library: follows symbolic links inside the root filesystem (use a descriptor of `/` for the host)
/// and takes the longest version that agrees with the name so far. A link whose target has another linker name or a version
/// that contradicts is believed more than its target ("libmpi.so.12 -> libmpich.so.12.1.8" stays libmpi.so.12).
/// nullopt if the path's own name is no library's name. A dangling link keeps what was found; loops end after 40 links.
std::optional<LibraryName> resolveLibraryName(int root, std::string_view path);

enum class AbiPolicy {
    major,  ///< the same major number
    full,   ///< in addition a minor number of the host which is not older (a missing one is the oldest)
    strict  ///< the same major and minor number
};

/// How a host library can stand in for one of the container's.
enum class AbiMatch { compatible, hostMinorOlder, incompatible };

/// Compares two names of the same library. `hostMinorOlder` is what `major` and `full` tolerate with a warning to the user.
/// Libraries of different linker names and such without a major number are incompatible.
AbiMatch compareAbi(const LibraryName& host, const LibraryName& container, AbiPolicy policy);

}  // namespace sarus::hooks
