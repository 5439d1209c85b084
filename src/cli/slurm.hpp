#pragma once

#include <string>
#include <vector>

namespace sarus::cli {

/// The existing directories in which Slurm's PMIx plugin serves the job step of this process; none if there is no such step.
/// Slurm's controller is asked (`scontrol show config`) only if they are not where Slurm has them by default. Never throws for
/// what Slurm does: a container without them may still work.
std::vector<std::string> findSlurmPmixDirectories();

}  // namespace sarus::cli
