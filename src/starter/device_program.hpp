#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace sarus::starter {

/// Devices that may be used in a cgroup: one rule of the v1 controller, one test of the v2 program.
struct DevicePattern {
    char type = 'c';                  ///< 'c' or 'b'
    std::optional<unsigned> major{};  ///< empty: all
    std::optional<unsigned> minor{};  ///< empty: all
    std::string_view access{};        ///< a combination of r, w and m
};

/// Allows in the open cgroup v2 directory what one of the patterns allows, and nothing else: by a BPF program of the type
/// BPF_PROG_TYPE_CGROUP_DEVICE, which lives as long as the cgroup. What the cgroups above forbid stays forbidden. Throws Error if
/// the kernel refuses the program, or would let it take the place of one of a cgroup above.
void attachDeviceProgram(int cgroup, const std::vector<DevicePattern>& allowed);

}  // namespace sarus::starter
