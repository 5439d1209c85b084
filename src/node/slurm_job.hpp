#pragma once

#include <cstdint>
#include <optional>

namespace sarus::node {

/// The Slurm job that this process belongs to, from its cgroups: a variable can be set by anybody. Only root
/// can have made the directory `job_<number>`, because its parent belongs to root alone. nullopt if there is
/// none.
std::optional<std::uint64_t> slurmJobOfCgroups();

}  // namespace sarus::node
