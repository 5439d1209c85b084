#pragma once

#include <cstdint>

namespace sarus::starter {

// The upper layer of a container that does not run, seen with the starter's rights: names and sizes alone.
// Nothing in it is followed or read.

/// Allocated bytes below the directory `name` of an open one, up to somewhat above `limit`. Throws Error.
std::uint64_t bytesOfLayer(int parent, const char* name, std::uint64_t limit);

}  // namespace sarus::starter
