#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/environment.hpp"
#include "hook_contracts/slurm_pmix.hpp"

namespace sarus::engine {

// The directories in which a job's PMIx server keeps the files that its clients open: shared memory, and in
// older versions sockets. They have the same paths inside the container as outside. All paths come from the
// user, so they are mounted with the user's rights, and plan() decides where they may be mounted.

/// The directories named by the server's variables: PMIX_SERVER_TMPDIR, the data stores of PMIx 2 to 4
/// (PMIX_DSTORE_...), and the shared memory segments of PMIx 4.2 and newer (PMIX_GDS_..._SEG_PATH).
/// Normalised, each once, none below another.
std::vector<std::string> pmixDirectories(const Environment& host);

/// Whether Slurm started this step with one of its PMIx plugins (pmix, pmix_v3, pmix_v4...).
bool isSlurmPmixStep(const Environment& host);

/// Those of the directories that are Slurm's for this step, by their names; at most one of each name.
std::vector<std::string> directoriesOfSlurmStep(const std::vector<std::string>& directories,
                                                const Environment& host);

/// Where Slurm's PMIx plugins of all versions keep their files for the job step of isSlurmPmixStep(). Some
/// may not exist.
std::vector<std::string> slurmPmixDirectories(const Environment& host,
                                              const hook_contracts::SlurmDirectories& slurm);

}  // namespace sarus::engine
