#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/environment.hpp"

namespace sarus::engine {

// The directories in which a job's PMIx server keeps the files that its clients open: shared memory, and in
// older versions sockets. They have the same paths inside the container as outside. All paths come from the
// user, so they are mounted with the user's rights, and plan() decides where they may be mounted.

/// The directories named by the server's variables: PMIX_SERVER_TMPDIR, the data stores of PMIx 2 to 4
/// (PMIX_DSTORE_...), and the shared memory segments of PMIx 4.2 and newer (PMIX_GDS_..._SEG_PATH).
/// Normalised, each once, none below another.
std::vector<std::string> pmixDirectories(const Environment& host);

/// Settings of `scontrol show config` for a node, with the patterns %h and %n (the node's name) replaced.
struct SlurmDirectories {
    std::string spool = "/var/spool/slurmd";  ///< SlurmdSpoolDir
    std::string tmp = "/tmp";                 ///< TmpFS
};
SlurmDirectories parseSlurmConfiguration(std::string_view scontrolOutput, std::string_view nodeName);

/// Where Slurm's programs on this node look for slurm.conf, in their order. `variable`: the value of
/// SLURM_CONF, "" if it is not set.
std::vector<std::string> slurmConfigurationPlaces(std::string_view variable);

/// Whether Slurm started this step with one of its PMIx plugins (pmix, pmix_v3, pmix_v4...).
bool isSlurmPmixStep(const Environment& host);

/// Those of the directories that are Slurm's for this step, by their names; at most one of each name.
std::vector<std::string> directoriesOfSlurmStep(const std::vector<std::string>& directories,
                                                const Environment& host);

/// Where Slurm's PMIx plugins of all versions keep their files for the job step of isSlurmPmixStep(). Some
/// may not exist.
std::vector<std::string> slurmPmixDirectories(const Environment& host, const SlurmDirectories& slurm);

}  // namespace sarus::engine
