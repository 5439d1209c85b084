#pragma once

#include <vector>

#include "engine/launch_request.hpp"

namespace sarus::starter {

/// Reads the request out of the memfd `fd`, which must be one of `inherited` and sealed with F_SEAL_SEAL, F_SEAL_SHRINK,
/// F_SEAL_GROW and F_SEAL_WRITE: what is checked cannot change any more, and reading it cannot block. Closes the descriptor.
/// Throws Error.
engine::LaunchRequest receiveRequest(int fd, const std::vector<int>& inherited);

/// The same for a command in a running container, which comes without an image.
engine::LaunchRequest receiveExecRequest(int fd, const std::vector<int>& inherited);

}  // namespace sarus::starter
