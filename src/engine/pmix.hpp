#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/environment.hpp"

namespace sarus::engine {

// Where the PMIx server of a job keeps what its clients open: files of shared memory, and in older versions sockets. A container
// sees these directories at the paths at which they are outside. All paths come from the user's side: they are mounted with the
// user's rights, and plan() decides where they may be mounted.

/// The directories that variables of the server name: PMIX_SERVER_TMPDIR, of the data stores of PMIx 2 to 4 (PMIX_DSTORE_...),
/// and of the shared memory segments of PMIx 4.2 and newer (PMIX_GDS_..._SEG_PATH). Normalised, each once, none below another
/// one.
std::vector<std::string> pmixDirectories(const Environment& host);

/// What `scontrol show config` says about a node, with the patterns %h and %n (the node's name) replaced.
struct SlurmDirectories {
    std::string spool = "/var/spool/slurmd";  ///< SlurmdSpoolDir
    std::string tmp = "/tmp";                 ///< TmpFS
};
SlurmDirectories parseSlurmConfiguration(std::string_view scontrolOutput, std::string_view nodeName);

/// Whether Slurm started this step with one of its PMIx plugins (pmix, pmix_v3, pmix_v4...).
bool isSlurmPmixStep(const Environment& host);

/// Where Slurm's PMIx plugins of all versions keep their files for the job step of isSlurmPmixStep(). Not all of them exist.
std::vector<std::string> slurmPmixDirectories(const Environment& host, const SlurmDirectories& slurm);

}  // namespace sarus::engine
