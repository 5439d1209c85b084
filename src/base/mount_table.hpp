#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sarus {

/// A line of /proc/PID/mountinfo (proc(5)), unescaped.
struct MountEntry {
    std::uint64_t id = 0;
    std::string device;      ///< "major:minor"
    std::string root;        ///< the mounted part of the filesystem
    std::string mountPoint;  ///< as the process sees it
    std::string options;     ///< of the mount
    std::string type;
    std::string superOptions;  ///< of the filesystem
};

/// The mounts in the order of the table: later ones cover earlier ones. The kernel escapes only blank, tab
/// and newline in a directory's name, so other white space is not a separator. Skips malformed lines.
std::vector<MountEntry> parseMountTable(std::string_view mountInfo);

/// The mounts of this process. Throws Error if they cannot be read.
std::vector<MountEntry> readMountTable();

}  // namespace sarus
