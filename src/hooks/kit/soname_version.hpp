#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::hooks {

/// The parts of a shared library's file name: "libmpi.so.12.1.8" is the library "libmpi.so" in version 12, 1,
/// 8.
struct LibraryName {
    std::string linkerName;              ///< up to and including the last ".so": the name for `-lmpi`
    std::vector<std::uint32_t> version;  ///< major, minor, patch...; empty if the name has no number

    std::optional<std::uint32_t> majorNumber() const;
    std::optional<std::uint32_t> minorNumber() const;
    /// The file name again.
    std::string text() const;
    /// The linker name, then with one more number each: "libmpi.so", "libmpi.so.12", "libmpi.so.12.1".
    std::vector<std::string> linkNames() const;

    bool operator==(const LibraryName&) const = default;
};

/// Parses the last component of a path. nullopt if it is not a shared library's name: no ".so", nothing
/// before it, or anything but ".<number>" (below 2^32) after it.
std::optional<LibraryName> parseLibraryName(std::string_view path);

/// The most complete name of a library. Follows symbolic links inside the root filesystem and takes the
/// longest version that agrees with the name so far. If a link's target has another linker name or a
/// contradicting version, the link's own name counts ("libmpi.so.12 -> libmpich.so.12.1.8" stays
/// libmpi.so.12). nullopt if the path's own name is not a library's name. A dangling link keeps the name
/// found so far; loops end after 40 links.
std::optional<LibraryName> resolveLibraryName(int root, std::string_view path);

/// The same for a library of the host, in fewer steps.
std::optional<LibraryName> resolveHostLibraryName(std::string_view path);

enum class AbiPolicy {
    major,  ///< the same major number
    full,   ///< in addition, the host's minor number must not be older
    strict  ///< the same major and minor number
};

/// How well a host library can replace one of the container's.
enum class AbiMatch { compatible, hostMinorOlder, incompatible };

/// Compares two names of the same library. A missing minor number counts as zero. `major` and `full` tolerate
/// `hostMinorOlder` with a warning to the user. Libraries with different linker names or without a major
/// number are incompatible.
AbiMatch compareAbi(const LibraryName& host, const LibraryName& container, AbiPolicy policy);

}  // namespace sarus::hooks
