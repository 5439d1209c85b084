#pragma once

#include <string>
#include <vector>

#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"

namespace sarus::cli {

/// The existing directories in which Slurm's PMIx plugin serves this process's job step; empty without such a
/// step. Looks in Slurm's default places, then in those of the node's slurm.conf. Ten thousand ranks that ask
/// the controller would overload it, so none does. Never throws for failures of Slurm: a container without
/// the directories may still work.
std::vector<std::string> findSlurmPmixDirectories();

/// Warns in a job of several nodes about a command that calls `mpirun`: without SSH it cannot reach the other
/// nodes, and an Open MPI that was built for Slurm looks for `srun` instead of SSH.
void warnOfLauncher(const engine::LaunchRequest& request);

/// Warns the first task of a step if the image has Open MPI and Slurm started the step without PMIx: each of
/// its ranks would believe to be alone, or fail.
void warnOfMissingPmix(const engine::LaunchRequest& request, const engine::SiteConfig& config);

}  // namespace sarus::cli
