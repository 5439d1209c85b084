#pragma once

#include <cstdint>
#include <optional>

namespace sarus::cli {

/// Raises the soft limit of this program's stack if it is too small for the program to run. Throws Error.
void raiseStackLimit();

/// The soft limit that this program found at its start, in bytes.
std::optional<std::uint64_t> callerStackLimit();

}  // namespace sarus::cli
