#pragma once

#include <cstdint>

namespace sarus {

/// The two sets of capabilities(7) that this project changes, one bit a capability.
struct CapabilitySets {
    std::uint64_t effective = 0;
    std::uint64_t permitted = 0;
};

/// Of this thread. Throws Error.
CapabilitySets getCapabilities();

/// For this thread. Clears the inheritable set. Throws Error.
void setCapabilities(const CapabilitySets& sets);

}  // namespace sarus
