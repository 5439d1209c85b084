#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::hook_contracts {

// Where Slurm's PMIx plugins keep the files that a step's clients open, for the engine and for pmix_hook.

/// A path of slurm.conf with the patterns %h and %n (the node's name) replaced.
std::string replaceNodeName(std::string_view pattern, std::string_view nodeName);

/// Settings of slurm.conf for a node, as replaceNodeName() gives them.
struct SlurmDirectories {
    std::string spool = "/var/spool/slurmd";  ///< SlurmdSpoolDir
    std::string tmp = "/tmp";                 ///< TmpFS
};

/// The value of SLURM_CONF; without it, the file of a Slurm that was installed into a directory of its own,
/// by the place of srun; "" without srun.
std::string firstSlurmConfiguration(const std::optional<std::string>& variable);

/// Where Slurm's programs on this node look for slurm.conf, in their order. `variable`: the value of
/// SLURM_CONF or of firstSlurmConfiguration(), "" if it is not set.
std::vector<std::string> slurmConfigurationPlaces(std::string_view variable);

/// The settings of the file that Slurm's programs on this node read, with the files that it includes; the
/// defaults without one that can be read. `variable` as above.
SlurmDirectories readSlurmConfiguration(std::string_view variable, std::string_view nodeName);

/// The name of this node without its domain: Slurm's, unless the site has configured others.
std::string shortNodeName();

/// A job step. Job and step are numbers.
struct SlurmStep {
    std::string job;
    std::string step;
    std::string uid{};  ///< of the job's user; "" if it is not known
};

/// Whether SLURM_MPI_TYPE, SLURM_JOB_ID and SLURM_STEP_ID are those of a step that Slurm started with one of
/// its PMIx plugins (pmix, pmix_v3, pmix_v4...).
bool isSlurmPmixStep(std::string_view mpiType, std::string_view job, std::string_view step);

/// Where Slurm's PMIx plugins of all versions keep their files for the step. Some may not exist.
std::vector<std::string> slurmPmixDirectories(const SlurmStep& step, const SlurmDirectories& slurm);

}  // namespace sarus::hook_contracts
