#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace sarus::starter {

/// Devices allowed in a cgroup: one rule of the v1 controller, one test of the v2 program.
struct DevicePattern {
    char type = 'c';                  ///< 'c' or 'b'
    std::optional<unsigned> major{};  ///< empty: all
    std::optional<unsigned> minor{};  ///< empty: all
    std::string_view access{};        ///< a combination of r, w and m
};

/// Restricts the open cgroup v2 directory to what the patterns allow. Uses a BPF program of type
/// BPF_PROG_TYPE_CGROUP_DEVICE, which lives as long as the cgroup. Restrictions of ancestor cgroups stay in
/// force. Throws Error if the kernel refuses the program or would let it replace one of an ancestor.
void attachDeviceProgram(int cgroup, const std::vector<DevicePattern>& allowed);

}  // namespace sarus::starter
