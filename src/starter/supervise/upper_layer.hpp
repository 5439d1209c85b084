#pragma once

#include <cstdint>
#include <vector>

namespace sarus::starter {

// The upper layer of a container that does not run, seen with the starter's rights: names, sizes and
// attributes alone. Nothing in it is followed or read.

/// Allocated bytes below the directory `name` of an open one, up to somewhat above `limit`. Throws Error.
std::uint64_t bytesOfLayer(int parent, const char* name, std::uint64_t limit);

/// The inodes of the directories below an open one which hide what the image has there
/// (trusted.overlay.opaque). Only root can read that attribute. Throws Error, also for a directory whose
/// content lies elsewhere (trusted.overlay.redirect).
std::vector<std::uint64_t> opaqueDirectories(int layer);

}  // namespace sarus::starter
