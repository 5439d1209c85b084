#pragma once

#include <vector>

#include "engine/starter_request.hpp"

namespace sarus::starter {

/// Reads the request from the memfd `fd`, which must be in `inherited` and sealed with F_SEAL_SEAL,
/// F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_WRITE: its content cannot change after the check, and reading cannot
/// block. The image of a LaunchRequest must also be in `inherited`. Closes the request's descriptor and
/// removes both from `inherited`. Throws Error.
engine::StarterRequest receiveRequest(int fd, std::vector<int>& inherited);

}  // namespace sarus::starter
