#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::starter {

/// A descriptor that becomes readable when Slurm's process for the caller's job step (slurmstepd) ends; empty
/// without such a process, or if it cannot be watched (before Linux 5.3). Call it before entering a user
/// namespace, where the owner could not be told. `environment`: the caller's. Never throws.
UniqueFd watchJobStep(const std::vector<std::string>& environment);

}  // namespace sarus::starter
