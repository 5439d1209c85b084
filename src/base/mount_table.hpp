#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sarus {

/// A line of /proc/PID/mountinfo (proc(5)), with nothing escaped.
struct MountEntry {
    std::uint64_t id = 0;
    std::string device;      ///< "major:minor"
    std::string root;        ///< what of the filesystem is mounted
    std::string mountPoint;  ///< as the process sees it
    std::string options;     ///< of the mount
    std::string type;
    std::string superOptions;  ///< of the filesystem
};

/// The mounts in the order of the table: later ones cover earlier ones. The text is trusted only as far as the kernel writes it:
/// a directory's name may hold every white space but blank, tab and newline as it is, and looks like further fields to whoever
/// splits at those. Lines of another form are left out.
std::vector<MountEntry> parseMountTable(std::string_view mountInfo);

/// That of this process. Throws Error if it cannot be read.
std::vector<MountEntry> readMountTable();

}  // namespace sarus
